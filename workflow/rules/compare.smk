# Compare the measurements with the published ones: of the same device, or else by ratios to the library.


# A slower kernel fails this job, and Snakemake deletes the outputs of a failed job. So its files are
# not declared as outputs: the text is the log, and the script writes the table whole.
rule compare:
    input:
        RUN.published_tables(),
        program=RUN.program("compare"),
        data=expand("results/local/{name}", name=DATA_SET),
        catalogue=config["catalogue"],
    log:
        "results/local/compare.txt",
    conda:
        "../../environment.yml"
    params:
        published=ROOT / "reports/published",
        folder=lambda wildcards, input: os.path.dirname(input.data[0]),
        table="results/local/compare.csv",
    message:
        "compare with the published data set"
    shell:
        "python {input.program[0]:q} {params.published:q} {params.folder} --catalogue {input.catalogue:q}"
        " --csv {params.table} 2>&1 | tee {log:q}"
