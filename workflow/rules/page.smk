# A data set to explore in a browser: one HTML file that needs no network.


rule write_page:
    input:
        RUN.program("page"),
        RUN.tables_beside,
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
        script=RUN.program("page")[0],
        data=lambda wildcards, input: os.path.dirname(input.data[0]),
        beside=RUN.beside,
    message:
        "write the page of {wildcards.dataset}"
    shell:
        "python {params.script:q} --data {params.data:q} --catalogue {input.catalogue:q}"
        " --beside {params.beside:q} --template {input.template:q} --output {output:q} --log {log:q}"


rule gallery:
    input:
        RUN.program("gallery"),
        RUN.published_tables(),
        template=ROOT / "reports/gallery.html",
        catalogue=config["catalogue"],
    output:
        "results/gallery.html",
    log:
        "results/local/logs/gallery.log",
    conda:
        "../../environment.yml"
    params:
        script=RUN.program("gallery")[0],
        folders=RUN.published(),
    message:
        "write the page of the published data sets"
    shell:
        "python {params.script:q} {params.folders:q} --catalogue {input.catalogue:q}"
        " --template {input.template:q} --output {output:q} --log {log:q}"


rule explore:
    input:
        expand("results/{dataset}/explore.html", dataset=RUN.reported()),
