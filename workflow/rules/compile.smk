# The binaries of a kernel for an architecture, one per tiling, each with a record of what the compiler
# said. Compiling and verifying go first: a timing job takes all cores, and most of them would be idle
# between two.


rule compile_kernel:
    input:
        RUN.sources,
        named(program_files(toolchain.NVRTC)),
        program=RUN.program("compile"),
    output:
        directory("results/local/build/{arch}/{kernel}"),
    log:
        "results/local/logs/build/{arch}/{kernel}.log",
    priority: 1
    conda:
        "../../environment.yml"
    threads: lambda wildcards: len(RUN.experiment.binaries[wildcards.arch, wildcards.kernel])
    params:
        experiment=EXPERIMENT_FILE,
        build=subpath(output[0], ancestor=2),
        identity=RUN.build_identity,
    message:
        "compile {wildcards.kernel} for {wildcards.arch}"
    shell:
        "python {input.program[0]:q} {wildcards.kernel} --experiment {params.experiment} --arch {wildcards.arch}"
        " --build {params.build} --processes {threads} --log {log:q}"


rule compile_tool:
    input:
        ROOT / "src/matmul_sweep/experiment/measure/{tool}.cu",
        named(program_files(toolchain.NVRTC)),
        program=RUN.program("compile_tool"),
    output:
        "results/local/build/{arch}/{tool}.cubin",
    log:
        "results/local/logs/build/{arch}/{tool}.log",
    priority: 1
    conda:
        "../../environment.yml"
    params:
        identity=RUN.compiler,
    message:
        "compile the {wildcards.tool} for {wildcards.arch}"
    shell:
        "python {input.program[0]:q} {wildcards.tool} --arch {wildcards.arch} --output {output:q}"
        " --log {log:q}"


rule compile:
    input:
        [f"results/local/build/{arch}/{kernel}" for arch, kernel in RUN.experiment.binaries],


# What the binaries are made of. It reads them and runs nothing, so it needs no GPU.
rule disassemble:
    input:
        rules.compile.input,
        program=RUN.program("disassemble"),
    output:
        "results/local/instructions.csv",
    log:
        "results/local/logs/disassemble.log",
    conda:
        "../../environment.yml"
    threads: 4
    params:
        experiment=EXPERIMENT_FILE,
        build=lambda wildcards: BUILD,
    message:
        "take the machine code apart"
    shell:
        "python {input.program[0]:q} --experiment {params.experiment} --build {params.build} --output {output:q}"
        " --processes {threads} --log {log:q}"
