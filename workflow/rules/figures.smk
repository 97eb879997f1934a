# Drawing reads the measurements and never repeats them. Only figures that have something to draw are
# written, so the data decide which there are.


rule draw_figures:
    input:
        RUN.tables_beside,
        program=RUN.program("figures"),
        data=RUN.data,
        evidence=RUN.evidence,
        catalogue=config["catalogue"],
        captions=named(CAPTIONS / caption for caption in captions().values()),
    output:
        report(
            directory("results/{dataset}/figures"),
            patterns=["{figure}.svg"],
            caption="../../reports/captions/pages/figure.rst",
            category="Figures",
            labels={"data set": "{dataset}", "figure": "{figure}"},
        ),
    log:
        "results/{dataset}/logs/figures.log",
    conda:
        "../../environment.yml"
    threads: 4
    params:
        data=lambda wildcards, input: os.path.dirname(input.data[0]),
        beside=RUN.beside,
        captions={name: (CAPTIONS / file).read_text() for name, file in captions().items()},
    message:
        "draw the figures of {wildcards.dataset}"
    shell:
        "python {input.program[0]:q} --data {params.data:q} --catalogue {input.catalogue:q}"
        " --beside {params.beside:q} --output {output:q} --processes {threads} --log {log:q}"


rule figures:
    input:
        "results/local/figures",
