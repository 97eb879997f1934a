// As instructions.cuh makes an operand of wgmma. No macro begins without its parenthesis.
#define KERNEL(name, function) \
    extern "C" __global__ void name(unsigned long long* operand, int i) \
    { \
        extern __shared__ char s[]; \
        const unsigned address = (unsigned)function(s + 1024 * i); \
        *operand = (address >> 4 & 0x3FFF) | 1ull << 62; \
    }
KERNEL(mine, __cvta_generic_to_shared)
KERNEL(without_the_macro, (__cvta_generic_to_shared))
