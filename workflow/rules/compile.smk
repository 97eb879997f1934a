# One binary per variant and architecture, with a record of what the compiler said.


rule compile_cuda:
    input:
        sources,
        program("compile"),
    output:
        cubin=LOCAL + "/build/{arch}/{slug}.cubin",
        record=LOCAL + "/build/{arch}/{slug}.json",
    log:
        LOCAL + "/logs/build/{arch}/{slug}.log",
    params:
        script=program("compile")[0],
        catalogue=config["catalogue"],
        identity=compile_identity,
    shell:
        "python {params.script} {wildcards.slug:q} --catalogue {params.catalogue:q}"
        " --arch {wildcards.arch} --binary {output.cubin:q} --record {output.record:q} --log {log:q}"


rule compile_c:
    input:
        sources,
        program("compile"),
    output:
        library=LOCAL + "/build/host/{slug}.so",
        record=LOCAL + "/build/host/{slug}.json",
    log:
        LOCAL + "/logs/build/host/{slug}.log",
    params:
        script=program("compile")[0],
        catalogue=config["catalogue"],
        identity=compile_identity,
    shell:
        "python {params.script} {wildcards.slug:q} --catalogue {params.catalogue:q}"
        " --arch host --binary {output.library:q} --record {output.record:q} --log {log:q}"


rule compile_instruments:
    input:
        ROOT / "scripts/matmul/instruments.cu",
        program("compile"),
    output:
        LOCAL + "/build/{arch}/instruments.cubin",
    log:
        LOCAL + "/logs/build/{arch}/instruments.log",
    params:
        script=program("compile")[0],
        identity=COMPILER,
    shell:
        "python {params.script} instruments --arch {wildcards.arch} --binary {output:q} --log {log:q}"


rule compile:
    input:
        [record for variant in VARIANTS.values() for record in built(variant)],
