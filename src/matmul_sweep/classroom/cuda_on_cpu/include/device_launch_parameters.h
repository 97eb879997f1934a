// Nothing: cuda_on_cpu.h is included before every source.
