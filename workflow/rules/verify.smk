# Verify every variant at tiny, ragged and prime shapes before anything is timed.


rule verify_variant:
    input:
        runnable,
        emulated_sources,
        program("verify"),
    output:
        "results/local/verified/{slug}.csv",
    log:
        "results/local/logs/verify/{slug}.log",
    priority: 1
    conda:
        "../../environment.yml"
    resources:
        gpu=gpus_to_verify,
    params:
        script=program("verify")[0],
        catalogue=config["catalogue"],
        device=DEVICE,
        shapes=verify_shapes,
        measured=measured_shapes,
        fill=config["fills"][0],
        seed=config["seed"],
        identity=run_identity,
        build="results/local/build",
        hang_seconds=config["limits"]["hang_seconds"],
    message:
        "verify {wildcards.slug}"
    shell:
        "python {params.script:q} {wildcards.slug:q} --catalogue {params.catalogue:q}"
        " --build {params.build} --device {params.device} --shapes {params.shapes}"
        " {params.measured}"
        " --fill {params.fill} --seed {params.seed} --hang-seconds {params.hang_seconds}"
        " --output {output:q} --log {log:q}"


rule verify:
    input:
        expand("results/local/verified/{slug}.csv", slug=VARIANTS),
