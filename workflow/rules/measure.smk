# A timing job measures variants at all points of a sweep: on one machine all that run on its GPU, on a
# cluster those of a kernel. It does not wait for the verification of an operation, which a change to one
# kernel would repeat: it asks for the records of its own variants, and verifies what has none.


rule measure_part:
    input:
        RUN.to_measure,
        program=RUN.program("measure"),
    output:
        directory("results/local/measured/{sweep}/{part}"),
    log:
        "results/local/logs/measure/{sweep}/{part}.log",
    conda:
        "../../environment.yml"
    threads: RUN.undisturbed_cores
    resources:
        gpu=RUN.gpus,
        timing=1,
    params:
        experiment=EXPERIMENT_FILE,
        identity=lambda wildcards: RUN.experiment.measuring_identity(
            wildcards.sweep, wildcards.part
        ),
        machine=RUN.machine,
        build=BUILD,
        records=RECORDS,
        journal="results/local/journal/{sweep}",
    message:
        "measure {wildcards.part}, {wildcards.sweep}"
    shell:
        "python {input.program[0]:q} {wildcards.part} --experiment {params.experiment}"
        " --sweep {wildcards.sweep} --build {params.build} --machine={params.machine:q}"
        " --records {params.records} --journal {params.journal} --output {output} --log {log:q}"


# The highest rates of the card, once for all kernels. This takes seconds.
rule measure_ceilings:
    input:
        RUN.tools("instruments", "ceilings"),
        program=RUN.program("ceilings"),
    output:
        "results/local/measured/ceilings.csv",
    log:
        "results/local/logs/measure/ceilings.log",
    conda:
        "../../environment.yml"
    threads: RUN.undisturbed_cores
    resources:
        gpu=RUN.gpus,
        timing=1,
    params:
        machine=RUN.machine,
        build=BUILD,
    message:
        "measure the highest rates of the card"
    shell:
        "python {input.program[0]:q} --build {params.build} --output {output:q} --log {log:q}"


# What holds each kernel back, by hardware counters; where they are not to be had, rows say why.
rule count:
    input:
        RUN.tools("instruments"),
        rules.compile.input,
        program=RUN.program("counters"),
    output:
        "results/local/counters.csv",
    log:
        "results/local/logs/measure/counters.log",
    conda:
        "../../environment.yml"
    threads: RUN.undisturbed_cores
    resources:
        gpu=RUN.gpus,
        timing=1,
    params:
        experiment=EXPERIMENT_FILE,
        machine=RUN.machine,
        build=lambda wildcards: BUILD,
    message:
        "read the hardware counters"
    shell:
        "python {input.program[0]:q} --experiment {params.experiment} --build {params.build}"
        " --output {output:q} --log {log:q}"


rule measure:
    input:
        RUN.measured(),


rule collect:
    input:
        RUN.measured(),
        rules.verify.input,
        rules.compile.input,
        program=RUN.program("collect"),
    output:
        RUN.collected(),
    log:
        "results/local/logs/collect.log",
    conda:
        "../../environment.yml"
    params:
        experiment=EXPERIMENT_FILE,
        configuration=json.dumps(config),
        results=subpath(output[0], parent=True),
    message:
        "collect the data set"
    shell:
        "python {input.program[0]:q} --experiment {params.experiment} --results {params.results}"
        " --output {params.results} --log {log:q}"
