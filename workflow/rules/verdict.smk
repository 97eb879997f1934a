# The verdict of a run, and how a data set gets into the repository.


# Written before the report and independent of it; onsuccess and onerror print it last.
rule verdict:
    input:
        program=RUN.program("verdict"),
        data=expand("results/local/{name}", name=DATA_SET),
    output:
        "results/local/verdict.txt",
    log:
        "results/local/logs/verdict.log",
    priority: 1
    conda:
        "../../environment.yml"
    params:
        folder=lambda wildcards, input: os.path.dirname(input.data[0]),
    message:
        "write the verdict"
    shell:
        "python {input.program[0]:q} --data {params.folder} --report results/local/report.pdf"
        " --output {output:q} > {log:q} 2>&1"


# Fails if the verdict does, after everything else is done.
rule pass_verdict:
    input:
        rules.report.input,
        rules.explore.input,
        verdict=rules.verdict.output,
    output:
        touch("results/local/passed"),
    log:
        "results/local/logs/passed.log",
    conda:
        "../../environment.yml"
    message:
        "check the verdict"
    shell:
        "awk 'index($0, \"failed\") == 1 {{exit 1}}' {input.verdict:q} 2> {log:q}"


# The pages are not outputs, because Snakemake would delete them before the job.
rule readme:
    input:
        RUN.published_tables(),
        program=RUN.program("readme"),
        catalogue=config["catalogue"],
        blocks=sorted((ROOT / "reports/blocks").glob("*.md")),
    log:
        "results/local/logs/readme.log",
    conda:
        "../../environment.yml"
    params:
        folders=RUN.published(),
    message:
        "write the published results into the pages that quote them"
    shell:
        "python {input.program[0]:q} {params.folders:q} --catalogue {input.catalogue:q}"
        " 2>&1 | tee {log:q}"


# Whether the data set follows from its samples, before anybody else reads it.
rule check:
    input:
        program=RUN.program("check_set"),
        data=RUN.collected(),
        catalogue=config["catalogue"],
    output:
        touch("results/local/checked"),
    log:
        "results/local/logs/check.log",
    conda:
        "../../environment.yml"
    params:
        folder=lambda wildcards, input: os.path.dirname(input.data[0]),
    message:
        "hold the data set against its samples"
    shell:
        "python {input.program[0]:q} {params.folder} --catalogue {input.catalogue:q} 2>&1 | tee {log:q}"


rule publish:
    input:
        rules.pass_verdict.output,
        rules.check.output,
        program=RUN.program("publish"),
        report="results/local/report.pdf",
    log:
        "results/local/logs/publish.log",
    conda:
        "../../environment.yml"
    params:
        folder=lambda wildcards, input: os.path.dirname(input.report),
    message:
        "publish the data set"
    shell:
        "python {input.program[0]:q} --data {params.folder} --report {input.report:q} 2>&1 | tee {log:q}"
