# A data set to explore in a browser: one HTML file that needs no network.


rule write_page:
    input:
        program("page"),
        data=data_of,
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
        script=program("page")[0],
        data=lambda wildcards, input: os.path.dirname(input.data[0]),
    message:
        "write the page of {wildcards.dataset}"
    shell:
        "python {params.script:q} --data {params.data:q} --catalogue {input.catalogue:q}"
        " --template {input.template:q} --output {output:q} --log {log:q}"


rule explore:
    input:
        expand("results/{dataset}/explore.html", dataset=reported()),
