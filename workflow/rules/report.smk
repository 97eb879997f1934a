# Numbers into tables, tables and figures into one PDF.


rule tabulate:
    input:
        RUN.tables_beside,
        program=RUN.program("tables"),
        data=RUN.data,
        checks=RUN.checks,
        evidence=RUN.evidence,
        documents=ROOT / "reports/documents.yaml",
        catalogue=config["catalogue"],
        # Their marked lines and their headers are shown.
        sources=sorted(Path(config["catalogue"]).parent.rglob("*.cu*")),
    output:
        "results/{dataset}/tables.json",
    log:
        "results/{dataset}/logs/tables.log",
    conda:
        "../../environment.yml"
    params:
        data=lambda wildcards, input: os.path.dirname(input.data[0]),
        beside=RUN.beside,
    message:
        "compute the tables of {wildcards.dataset}"
    shell:
        "python {input.program[0]:q} --data {params.data:q} --catalogue {input.catalogue:q}"
        " --beside {params.beside:q} --output {output:q} --log {log:q}"


rule typeset:
    input:
        sorted(ROOT.glob("reports/*.typ")),
        sorted(ROOT.glob("reports/chapters/*.typ")),
        ROOT / "reports/worklog.yaml",
        ROOT / "kernels/WORKLOG.md",
        program=RUN.program("report"),
        source=ROOT / "reports/report.typ",
        tables=rules.tabulate.output,
        figures=rules.draw_figures.output,
        mistakes=RUN.mistakes_shown,
    output:
        report(
            "results/{dataset}/report.pdf",
            caption="../../reports/captions/pages/report.rst",
            category="Report",
            labels={"data set": "{dataset}", "figure": "report"},
        ),
    log:
        "results/{dataset}/logs/report.log",
    conda:
        "../../environment.yml"
    message:
        "typeset the report of {wildcards.dataset}"
    shell:
        "python {input.program[0]:q} --tables {input.tables:q} --figures {input.figures:q}"
        " --mistakes {input.mistakes:q} --source {input.source:q} --output {output:q} --log {log:q}"


rule report:
    input:
        expand("results/{dataset}/report.pdf", dataset=RUN.reported()),
