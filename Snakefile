"""matmul-sweep: CUDA matrix multiplication, compiled, verified, measured and reported.

snakemake --cores 1 all                                 the whole experiment
snakemake --cores 1 compile                             up to one step: compile, verify, measure,
                                                        figures, report, explore
snakemake --cores 1 compare                             compare the measurements with the
                                                        published data set
snakemake --cores 1 mistakes                            the gallery of mistakes, without a GPU
snakemake --cores 1 site                                the pages for a browser, in results/site
snakemake --cores 1 all --configfile config/documents.yaml    every size in the documents
"""

from snakemake.utils import min_version

min_version("9.0")


configfile: "config/config.yaml"


include: "workflow/rules/common.smk"


EXPERIMENT_FILE = "results/local/experiment.json"
BUILD = "results/local/build"
RECORDS = "results/local/journal/verified"


wildcard_constraints:
    operation=r"[a-z]\w*",
    sweep=r"[a-z]\w*",
    kernel=r"\w+",
    part=r"\w+",
    tool="|".join(TOOLS),
    arch=r"host|sm_[0-9]+[a-z]?",
    dataset="local|published/[a-z0-9-]+",


include: "workflow/rules/compile.smk"
include: "workflow/rules/verify.smk"
include: "workflow/rules/measure.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/mistakes.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/site.smk"
include: "workflow/rules/verdict.smk"
include: "workflow/rules/compare.smk"


onstart:
    RUN.begin(EXPERIMENT_FILE)


onsuccess:
    RUN.end()


onerror:
    RUN.end()
    RUN.tell_interruption(log)


localrules:
    compile_kernel,
    compile_tool,
    disassemble,
    count_loads,
    collect,
    draw_figures,
    tabulate,
    typeset,
    write_page,
    site,
    verdict,
    pass_verdict,
    check,
    readme,
    publish,
    compare,
    run_mistakes,
    mistakes,


# Every output by name: Snakemake does not miss one that is gone if what is made of it is there.
rule all:
    default_target: True
    input:
        rules.compile.input,
        RUN.tools("instruments", "ceilings"),
        rules.verify.input,
        rules.measure.input,
        RUN.collected(),
        rules.disassemble.output,
        rules.count.output if RUN.device == "gpu" else rules.count_loads.output,
        expand("results/{dataset}/tables.json", dataset=RUN.reported()),
        expand("results/{dataset}/figures", dataset=RUN.reported()),
        rules.report.input,
        rules.explore.input,
        rules.verdict.output,
        rules.pass_verdict.output,
