# A timing job measures the variants of a kernel at all points of a sweep; collecting its results only
# reads files. It does not wait for the verification of other kernels, which a change to one of them
# would repeat: it asks for the records of its own, and verifies what has none.


rule measure_kernel:
    input:
        program("measure"),
        lambda wildcards: runnable(measured_variants(wildcards)),
    output:
        points="results/local/measured/{sweep}/{kernel}/points.csv",
        samples="results/local/measured/{sweep}/{kernel}/samples.csv.gz",
        states="results/local/measured/{sweep}/{kernel}/states.csv",
        facts="results/local/measured/{sweep}/{kernel}/facts.json",
    log:
        "results/local/logs/measure/{sweep}/{kernel}.log",
    conda:
        "../../environment.yml"
    threads: undisturbed_cores
    resources:
        gpu=gpus,
        timing=1,
    params:
        script=program("measure")[0],
        identity=lambda wildcards: EXPERIMENT.measuring_identity(wildcards.sweep, wildcards.kernel),
        machine=MACHINE,
        build="results/local/build",
        records=RECORDS,
        journal="results/local/journal/{sweep}/{kernel}",
        folder=subpath(output.facts, parent=True),
    message:
        "measure {wildcards.kernel}, {wildcards.sweep}"
    shell:
        "python {params.script:q} {wildcards.kernel} --experiment {EXPERIMENT_FILE}"
        " --sweep {wildcards.sweep} --build {params.build} --machine={params.machine:q}"
        " --records {params.records} --journal {params.journal:q} --output {params.folder:q} --log {log:q}"


# The highest rates of the card, once for all kernels. This takes seconds.
rule measure_ceilings:
    input:
        built_tools("instruments", "ceilings"),
        program("ceilings"),
    output:
        "results/local/measured/ceilings.csv",
    log:
        "results/local/logs/measure/ceilings.log",
    conda:
        "../../environment.yml"
    threads: undisturbed_cores
    resources:
        gpu=gpus,
        timing=1,
    params:
        script=program("ceilings")[0],
        machine=MACHINE,
        build="results/local/build",
    message:
        "measure the highest rates of the card"
    shell:
        "python {params.script:q} --build {params.build} --output {output:q} --log {log:q}"


# What holds each kernel back, by hardware counters; where they are not to be had, rows say why.
rule count:
    input:
        built_tools("instruments"),
        rules.compile.input,
        program("counters"),
    output:
        "results/local/counters.csv",
    log:
        "results/local/logs/measure/counters.log",
    conda:
        "../../environment.yml"
    threads: undisturbed_cores
    resources:
        gpu=gpus,
        timing=1,
    params:
        script=program("counters")[0],
        machine=MACHINE,
        build="results/local/build",
    message:
        "read the hardware counters"
    shell:
        "python {params.script:q} --experiment {EXPERIMENT_FILE} --build {params.build}"
        " --output {output:q} --log {log:q}"


rule measure:
    input:
        measured("facts.json"),
        ceilings(),


# A checkpoint: on a cluster jobs may run on several GPU models, known only when all jobs are done.
checkpoint collect:
    input:
        program("collect"),
        measured("points.csv", "samples.csv.gz", "states.csv", "facts.json"),
        ceilings(),
        rules.verify.input,
        rules.compile.input,
    output:
        expand("results/local/{name}", name=[*DATA_SET, *(["ceilings.csv"] if ceilings() else [])]),
        others=directory("results/local/others"),
    log:
        "results/local/logs/collect.log",
    conda:
        "../../environment.yml"
    params:
        script=program("collect")[0],
        configuration=json.dumps(config),
        results="results/local",
    message:
        "collect the data set"
    shell:
        "python {params.script:q} --experiment {EXPERIMENT_FILE} --results {params.results}"
        " --output {params.results} --others {output.others} --log {log:q}"
