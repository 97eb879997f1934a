# The gallery of mistakes. The report takes its results from the repository, unless they are of other
# sources; `snakemake mistakes` runs and typesets it. It needs no GPU.


rule run_mistakes:
    input:
        named(mistake_results.sources()),
        program=RUN.program("mistakes"),
    output:
        directory("results/mistakes/gallery"),
    log:
        "results/mistakes/mistakes.log",
    conda:
        "../../environment.yml"
    threads: 4
    message:
        "run the gallery of mistakes"
    shell:
        "python {input.program[0]:q} --output {output:q} --processes {threads} --log {log:q}"


rule mistakes:
    input:
        program=RUN.program("report"),
        chapters=[ROOT / f"reports/chapters/{name}.typ" for name in ("mistakes", "exhibits")],
        style=ROOT / "reports/style.typ",
        source=ROOT / "reports/mistakes.typ",
        gallery=rules.run_mistakes.output,
    output:
        "results/mistakes/mistakes.pdf",
    log:
        "results/mistakes/report.log",
    conda:
        "../../environment.yml"
    message:
        "typeset the gallery of mistakes"
    shell:
        "python {input.program[0]:q} --mistakes {input.gallery:q} --source {input.source:q}"
        " --output {output:q} --log {log:q}"
