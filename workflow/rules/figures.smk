# Drawing reads the measurements and never repeats them.

FIGURES = captions()


rule draw_figures:
    input:
        program("figures"),
        tables_beside,
        data=data_of,
        evidence=evidence_of,
        catalogue=config["catalogue"],
    output:
        [
            report(
                f"results/{{dataset}}/figures/{figure}.svg",
                caption=f"../../reports/captions/{caption}",
                category="Figures",
                labels={"data set": "{dataset}", "figure": figure},
            )
            for figure, caption in FIGURES.items()
        ],
        expand("results/{{dataset}}/figures/{figure}.png", figure=FIGURES),
    log:
        "results/{dataset}/logs/figures.log",
    conda:
        "../../environment.yml"
    threads: 2
    params:
        script=program("figures")[0],
        data=lambda wildcards, input: os.path.dirname(input.data[0]),
        beside=beside,
        folder=lambda wildcards, output: os.path.dirname(output[0]),
    message:
        "draw the figures of {wildcards.dataset}"
    shell:
        "python {params.script:q} --data {params.data:q} --catalogue {input.catalogue:q}"
        " --beside {params.beside:q} --output {params.folder:q} --processes {threads} --log {log:q}"


rule figures:
    input:
        expand("results/local/figures/{figure}.svg", figure=FIGURES),
