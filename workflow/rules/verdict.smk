# The last word of a run, and the way of a data set into the repository.


rule verdict:
    input:
        program("verdict"),
        data=expand(LOCAL + "/{name}", name=DATASET),
        report=LOCAL + "/report.pdf",
    output:
        LOCAL + "/verdict.txt",
    log:
        LOCAL + "/logs/verdict.log",
    params:
        script=program("verdict")[0],
        folder=LOCAL,
    shell:
        "python {params.script} --data {params.folder} --report {input.report:q} --output {output:q}"
        " 2>&1 | tee {log:q}"


rule publish:
    input:
        program("publish"),
        rules.verdict.output,
        report=LOCAL + "/report.pdf",
    log:
        LOCAL + "/logs/publish.log",
    params:
        script=program("publish")[0],
        folder=LOCAL,
    shell:
        "python {params.script} --data {params.folder} --report {input.report:q} 2>&1 | tee {log:q}"
