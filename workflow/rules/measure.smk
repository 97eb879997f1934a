# A timing job is one variant over all shapes; collecting its results is arithmetic on files.


rule measure_variant:
    input:
        runnable,
        program("measure"),
        verification="results/local/verified/{slug}.csv",
    output:
        points="results/local/measured/{slug}/points.csv",
        samples="results/local/measured/{slug}/samples.csv.gz",
        facts="results/local/measured/{slug}/facts.json",
    log:
        "results/local/logs/measure/{slug}.log",
    conda:
        "../../environment.yml"
    threads: every_core
    resources:
        gpu=gpus,
        timing=1,
    params:
        script=program("measure")[0],
        catalogue=config["catalogue"],
        device=DEVICE,
        shapes=shapes,
        fill=config["fill"],
        seed=config["seed"],
        options=measure_options,
        identity=run_identity,
        build="results/local/build",
        journal="results/local/journal/{slug}",
    message:
        "measure {wildcards.slug}"
    shell:
        "python {params.script} {wildcards.slug:q} --catalogue {params.catalogue:q}"
        " --build {params.build} --device {params.device} --shapes {params.shapes}"
        " --verification {input.verification:q} --fill {params.fill} --seed {params.seed}"
        " {params.options}"
        " --journal {params.journal:q} --points {output.points:q} --samples {output.samples:q}"
        " --facts {output.facts:q} --log {log:q}"


rule measure:
    input:
        expand("results/local/measured/{slug}/facts.json", slug=VARIANTS),


rule collect:
    input:
        program("collect"),
        measured=expand(
            "results/local/measured/{slug}/{file}",
            slug=VARIANTS,
            file=["points.csv", "samples.csv.gz", "facts.json"],
        ),
        verified=rules.verify.input,
        records=rules.compile.input,
    output:
        expand("results/local/{name}", name=DATA_SET),
    log:
        "results/local/logs/collect.log",
    conda:
        "../../environment.yml"
    params:
        script=program("collect")[0],
        catalogue=config["catalogue"],
        measured=expand("results/local/measured/{slug}", slug=VARIANTS),
        configuration=json.dumps(config),
        folder=lambda wildcards, output: os.path.dirname(output[0]),
    message:
        "collect the data set"
    shell:
        "python {params.script} --catalogue {params.catalogue:q} --measured {params.measured:q}"
        " --verified {input.verified:q} --records {input.records:q}"
        " --configuration {params.configuration:q} --output {params.folder} --log {log:q}"
