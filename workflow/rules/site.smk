# Pages for a browser that need no network: Explore of each reported data set, and the site.


rule write_page:
    input:
        RUN.tables_beside,
        sorted(ROOT.glob("site/*")),
        program=RUN.program("explore"),
        data=RUN.data,
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
        " --beside {params.beside:q} --output {output:q} --log {log:q}"


rule explore:
    input:
        expand("results/{dataset}/explore.html", dataset=RUN.reported()),


# Of this run's data set once there is one, else of the published one that leads.
rule site:
    input:
        sorted(ROOT.glob("reports/published/*/*")),
        sorted(ROOT.glob("site/*")),
        ROOT / "reports/pictures.typ",
        ROOT / "reports/style.typ",
        ROOT / "kernels/WORKLOG.md",
        program=RUN.program("pages"),
        data=RUN.local_set(),
        catalogue=config["catalogue"],
        # Their marked lines and their headers are shown.
        sources=sorted(Path(config["catalogue"]).parent.rglob("*.cu*")),
        mistakes=RUN.mistakes_shown,
    output:
        directory("results/site"),
    log:
        "results/logs/site.log",
    conda:
        "../../environment.yml"
    params:
        data=lambda wildcards, input: f"--data {LOCAL}" if input.data else "",
        published=RUN.published(),
    message:
        "write the site"
    shell:
        "python {input.program[0]:q} {params.data} --catalogue {input.catalogue:q}"
        " --published {params.published:q} --mistakes {input.mistakes:q} --output {output:q} --log {log:q}"
