# A data set to explore in a browser: one HTML file that needs no network.


rule write_page:
    input:
        RUN.tables_beside,
        program=RUN.program("page"),
        data=RUN.data,
        template=ROOT / "reports/explore.html",
        catalogue=config["catalogue"],
    output:
        report(
            "results/{dataset}/explore.html",
            caption="../../reports/captions/pages/explore.rst",
            category="Report",
            labels={"data set": "{dataset}", "figure": "explore"},
        ),
    log:
        "results/{dataset}/logs/page.log",
    conda:
        "../../environment.yml"
    params:
        data=lambda wildcards, input: os.path.dirname(input.data[0]),
        beside=RUN.beside,
    message:
        "write the page of {wildcards.dataset}"
    shell:
        "python {input.program[0]:q} --data {params.data:q} --catalogue {input.catalogue:q}"
        " --beside {params.beside:q} --template {input.template:q} --output {output:q} --log {log:q}"


rule gallery:
    input:
        RUN.published_tables(),
        program=RUN.program("gallery"),
        template=ROOT / "reports/gallery.html",
        catalogue=config["catalogue"],
    output:
        "results/gallery.html",
    log:
        "results/local/logs/gallery.log",
    conda:
        "../../environment.yml"
    params:
        folders=RUN.published(),
    message:
        "write the page of the published data sets"
    shell:
        "python {input.program[0]:q} {params.folders:q} --catalogue {input.catalogue:q}"
        " --template {input.template:q} --output {output:q} --log {log:q}"


rule explore:
    input:
        expand("results/{dataset}/explore.html", dataset=RUN.reported()),
