# A timing job measures one variant at all points of a sweep; collecting its results only reads files.


rule measure_variant:
    input:
        runnable,
        program("measure"),
        verification="results/local/verified/{slug}.csv",
    output:
        points="results/local/measured/{sweep}/{slug}/points.csv",
        samples="results/local/measured/{sweep}/{slug}/samples.csv.gz",
        states="results/local/measured/{sweep}/{slug}/states.csv",
        facts="results/local/measured/{sweep}/{slug}/facts.json",
    log:
        "results/local/logs/measure/{sweep}/{slug}.log",
    conda:
        "../../environment.yml"
    threads: undisturbed_cores
    resources:
        gpu=gpus,
        timing=1,
    params:
        script=program("measure")[0],
        catalogue=config["catalogue"],
        device=DEVICE,
        seed=config["seed"],
        options=measure_options,
        identity=run_identity,
        build="results/local/build",
        journal="results/local/journal/{sweep}/{slug}",
    message:
        "measure {wildcards.slug}, {wildcards.sweep}"
    shell:
        "python {params.script:q} {wildcards.slug:q} --catalogue {params.catalogue:q}"
        " --build {params.build} --device {params.device} --sweep {wildcards.sweep}"
        " --verification {input.verification:q} --seed {params.seed} {params.options}"
        " --journal {params.journal:q} --keep-journal --points {output.points:q} --samples {output.samples:q}"
        " --states {output.states:q}"
        " --facts {output.facts:q} --log {log:q}"


# The highest rates of the card, once for all variants. This takes seconds.
rule measure_ceilings:
    input:
        built_tools("instruments", "ceilings"),
        program("ceilings"),
    output:
        "results/local/measured/ceilings.csv",
    log:
        "results/local/logs/measure/ceilings.log",
    localrule: DEVICE != "gpu"
    conda:
        "../../environment.yml"
    threads: undisturbed_cores
    resources:
        gpu=gpus,
        timing=1,
    params:
        script=program("ceilings")[0],
        device=DEVICE,
        identity=MACHINE,
        build="results/local/build",
    message:
        "measure the highest rates of the card"
    shell:
        "python {params.script:q} --build {params.build} --device {params.device} --output {output:q}"
        " --log {log:q}"


# What holds each kernel back, by hardware counters; where they are not to be had, rows say why.
rule count:
    input:
        built_tools("instruments"),
        rules.compile.input,
        program("counters"),
        variants="results/local/build/counters.txt",
    output:
        "results/local/counters.csv",
    log:
        "results/local/logs/measure/counters.log",
    localrule: DEVICE != "gpu"
    conda:
        "../../environment.yml"
    threads: undisturbed_cores
    resources:
        gpu=gpus,
        timing=1,
    params:
        script=program("counters")[0],
        catalogue=config["catalogue"],
        device=DEVICE,
        identity=MACHINE,
        build=subpath(input.variants, parent=True),
    message:
        "read the hardware counters"
    shell:
        "python {params.script:q} --build {params.build} --device {params.device}"
        " @{input.variants:q} --catalogue {params.catalogue:q} --output {output:q} --log {log:q}"


rule measure:
    input:
        measured("facts.json"),
        rules.measure_ceilings.output,


# The arguments of `collect`, one per line: Linux limits a shell's command to 128 KiB, which a few
# hundred variants fill.
rule list_results:
    input:
        template=ROOT / "workflow/templates/lines.jinja2",
    output:
        "results/local/measured/list.txt",
    log:
        "results/local/logs/list.log",
    localrule: True
    params:
        lines=collect_options(),
    message:
        "list the results"
    template_engine:
        "jinja2"


# A checkpoint: on a cluster jobs may run on several GPU models, known only when all jobs are done.
checkpoint collect:
    input:
        program("collect"),
        measured("points.csv", "samples.csv.gz", "states.csv", "facts.json"),
        rules.verify.input,
        rules.compile.input,
        options=rules.list_results.output,
        ceilings=rules.measure_ceilings.output,
    output:
        expand("results/local/{name}", name=[*DATA_SET, "ceilings.csv"]),
        others=directory("results/local/others"),
    log:
        "results/local/logs/collect.log",
    conda:
        "../../environment.yml"
    params:
        script=program("collect")[0],
        catalogue=config["catalogue"],
        folder=lambda wildcards, output: os.path.dirname(output[0]),
    message:
        "collect the data set"
    shell:
        "python {params.script:q} @{input.options:q} --catalogue {params.catalogue:q}"
        " --ceilings {input.ceilings:q} --output {params.folder} --others {output.others} --log {log:q}"
