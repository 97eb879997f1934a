# A timing job is one variant over all shapes; collecting its results is arithmetic on files.


rule measure_variant:
    input:
        runnable,
        program("measure"),
        verification=LOCAL + "/verified/{slug}.csv",
    output:
        points=LOCAL + "/measured/{slug}/points.csv",
        samples=LOCAL + "/measured/{slug}/samples.csv.gz",
        facts=LOCAL + "/measured/{slug}/facts.json",
    log:
        LOCAL + "/logs/measure/{slug}.log",
    params:
        script=program("measure")[0],
        catalogue=config["catalogue"],
        device=DEVICE,
        shapes=lambda wildcards: config["shapes"],
        fill=config["fill"],
        seed=config["seed"],
        options=measure_options(),
        launch_seconds=launch_seconds,
        identity=run_identity,
        build=LOCAL + "/build",
        journal=LOCAL + "/journal/{slug}",
    resources:
        gpu=gpus,
        timing=1,
    shell:
        "python {params.script} {wildcards.slug:q} --catalogue {params.catalogue:q}"
        " --build {params.build} --device {params.device} --shapes {params.shapes}"
        " --verification {input.verification:q} --fill {params.fill} --seed {params.seed}"
        " {params.options} --launch-seconds {params.launch_seconds}"
        " --journal {params.journal:q} --points {output.points:q} --samples {output.samples:q}"
        " --facts {output.facts:q} --log {log:q}"


rule measure:
    input:
        expand(LOCAL + "/measured/{slug}/facts.json", slug=VARIANTS),


rule collect:
    input:
        program("collect"),
        measured=expand(LOCAL + "/measured/{slug}/{file}", slug=VARIANTS,
                        file=["points.csv", "samples.csv.gz", "facts.json"]),
        verified=rules.verify.input,
        records=rules.compile.input,
    output:
        expand(LOCAL + "/{name}", name=DATASET),
    log:
        LOCAL + "/logs/collect.log",
    params:
        script=program("collect")[0],
        catalogue=config["catalogue"],
        measured=expand(LOCAL + "/measured/{slug}", slug=VARIANTS),
        configuration=json.dumps(config),
        folder=LOCAL,
    shell:
        "python {params.script} --catalogue {params.catalogue:q} --measured {params.measured:q}"
        " --verified {input.verified:q} --records {input.records:q}"
        " --configuration {params.configuration:q} --output {params.folder} --log {log:q}"
