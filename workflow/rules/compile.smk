# One binary per variant and architecture, with a record of what the compiler said. Compiling and
# verifying go first: a timing job takes all cores, and most of them would be idle between two.


rule compile_cuda:
    input:
        sources,
        program("compile"),
        program("nvrtc"),
    output:
        cubin="results/local/build/{arch}/{slug}.cubin",
        record="results/local/build/{arch}/{slug}.json",
    log:
        "results/local/logs/build/{arch}/{slug}.log",
    priority: 1
    conda:
        "../../environment.yml"
    params:
        script=program("compile")[0],
        catalogue=config["catalogue"],
        identity=compile_identity,
    message:
        "compile {wildcards.slug} for {wildcards.arch}"
    shell:
        "python {params.script:q} {wildcards.slug:q} --catalogue {params.catalogue:q}"
        " --arch {wildcards.arch} --binary {output.cubin:q} --record {output.record:q} --log {log:q}"


rule compile_c:
    input:
        sources,
        program("compile"),
    output:
        library="results/local/build/host/{slug}.so",
        record="results/local/build/host/{slug}.json",
    log:
        "results/local/logs/build/host/{slug}.log",
    priority: 1
    conda:
        "../../environment.yml"
    params:
        script=program("compile")[0],
        catalogue=config["catalogue"],
        identity=compile_identity,
    message:
        "compile {wildcards.slug}"
    shell:
        "python {params.script:q} {wildcards.slug:q} --catalogue {params.catalogue:q}"
        " --arch host --binary {output.library:q} --record {output.record:q} --log {log:q}"


rule compile_instruments:
    input:
        ROOT / "scripts/matmul/gpu/{tool}.cu",
        program("compile"),
        program("nvrtc"),
    output:
        "results/local/build/{arch}/{tool}.cubin",
    log:
        "results/local/logs/build/{arch}/{tool}.log",
    priority: 1
    conda:
        "../../environment.yml"
    params:
        script=program("compile")[0],
        identity=COMPILER,
    message:
        "compile the {wildcards.tool} for {wildcards.arch}"
    shell:
        "python {params.script:q} {wildcards.tool} --arch {wildcards.arch} --binary {output:q} --log {log:q}"


rule compile:
    input:
        [record for variant in VARIANTS.values() for record in built(variant)],


# Arguments that grow with the catalogue, one per line, as those of `collect`.
rule list_arguments:
    input:
        template=ROOT / "workflow/templates/lines.jinja2",
    output:
        "results/local/build/{step}.txt",
    log:
        "results/local/logs/build/{step}.log",
    wildcard_constraints:
        step="disassemble|counters",
    localrule: True
    params:
        lines=arguments_of,
    message:
        "list what {wildcards.step} reads"
    template_engine:
        "jinja2"


# What the binaries are made of. It reads them and runs nothing, so it needs no GPU.
rule disassemble:
    input:
        program("disassemble"),
        rules.compile.input,
        records="results/local/build/disassemble.txt",
    output:
        "results/local/instructions.csv",
    log:
        "results/local/logs/disassemble.log",
    conda:
        "../../environment.yml"
    threads: 2
    params:
        script=program("disassemble")[0],
        catalogue=config["catalogue"],
    message:
        "take the machine code apart"
    shell:
        "python {params.script:q} @{input.records:q} --catalogue {params.catalogue:q} --output {output:q}"
        " --processes {threads} --log {log:q}"
