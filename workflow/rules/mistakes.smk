# The gallery of mistakes: run, then typeset in the look of the report. It needs no GPU.


rule run_mistakes:
    input:
        program("mistakes"),
        sorted((ROOT / "kernels/mistakes").glob("*")),
        runtime_on_cpu(),
    output:
        "results/mistakes/mistakes.json",
    log:
        "results/mistakes/mistakes.log",
    conda:
        "../../environment.yml"
    params:
        script=program("mistakes")[0],
        folder=lambda wildcards, output: os.path.dirname(output[0]),
    message:
        "run the gallery of mistakes"
    shell:
        "python {params.script:q} --output {params.folder:q} --log {log:q}"


rule mistakes:
    input:
        program("report"),
        chapter=ROOT / "reports/chapters/mistakes.typ",
        style=ROOT / "reports/style.typ",
        source=ROOT / "reports/mistakes.typ",
        tables=rules.run_mistakes.output,
    output:
        "results/mistakes/mistakes.pdf",
    log:
        "results/mistakes/report.log",
    conda:
        "../../environment.yml"
    params:
        script=program("report")[0],
        figures=lambda wildcards, input: os.path.dirname(input.tables[0]),
    message:
        "typeset the gallery of mistakes"
    shell:
        "python {params.script:q} --tables {input.tables:q} --figures {params.figures:q}"
        " --source {input.source:q} --output {output:q} --log {log:q}"
