# Verify every variant at tiny, ragged and prime shapes before anything is timed. One job verifies an
# operation; records of its variants save those that a change leaves alone.


rule verify_operation:
    input:
        RUN.verifiable,
        program=RUN.program("verify"),
    output:
        "results/local/verified/{operation}.csv",
    log:
        "results/local/logs/verify/{operation}.log",
    priority: 1
    conda:
        "../../environment.yml"
    threads: 1 if RUN.device == "gpu" else 4
    resources:
        # It times nothing, so on this machine such jobs share a card.
        gpu=int(RUN.device == "gpu" and RUN.sent_off()),
    params:
        experiment=EXPERIMENT_FILE,
        machine=RUN.machine,
        identity=lambda wildcards: RUN.experiment.verifying_identity(wildcards.operation),
        build=BUILD,
        records=RECORDS,
    message:
        "verify the kernels of {wildcards.operation}"
    shell:
        "python {input.program[0]:q} {wildcards.operation} --experiment {params.experiment}"
        " --build {params.build} --machine={params.machine:q} --records {params.records}"
        " --processes {threads} --output {output:q} --log {log:q}"


rule verify:
    input:
        expand("results/local/verified/{operation}.csv", operation=RUN.experiment.operations),


# How many elements of its inputs a kernel reads for each multiply-add, counted thread by thread.
rule count_loads:
    input:
        RUN.counted(),
        program=RUN.program("loads"),
    output:
        "results/local/loads.csv",
    log:
        "results/local/logs/loads.log",
    conda:
        "../../environment.yml"
    params:
        experiment=EXPERIMENT_FILE,
    message:
        "count the loads of the kernels"
    shell:
        "python {input.program[0]:q} --experiment {params.experiment} --output {output:q} --log {log:q}"
