# Drawing: what was measured is read, never measured again.

FIGURES = [
    "duration_seconds",
    "duration_milliseconds",
    "duration_loglog",
    "rate",
    "share",
    "tile_width",
    "speedup",
    "hot_and_cold",
    "gram_duration",
    "gram_ratio",
    "gram_rate",
    "fills",
    "sustained",
    "roofline",
    "gram_roofline",
    "clocks",
    "copies",
    "time_split",
    "first_launch",
    "ladder",
    "gram_ladder",
    "heat_map",
    "gram_heat_map",
    "accuracy",
    "gram_accuracy",
]


rule draw_figures:
    input:
        program("figures"),
        data=data_of,
        catalogue=config["catalogue"],
    output:
        [
            report(
                f"results/{{dataset}}/figures/{figure}.svg",
                caption=f"../../reports/captions/{figure}.rst",
                category="Figures",
                labels={"data set": "{dataset}", "figure": figure},
            )
            for figure in FIGURES
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
        folder=lambda wildcards, output: os.path.dirname(output[0]),
    message:
        "draw the figures of {wildcards.dataset}"
    shell:
        "python {params.script:q} --data {params.data:q} --catalogue {input.catalogue:q}"
        " --output {params.folder:q} --processes {threads} --log {log:q}"


rule figures:
    input:
        expand("results/local/figures/{figure}.svg", figure=FIGURES),
