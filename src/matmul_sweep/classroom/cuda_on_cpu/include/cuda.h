// A tensor map on the CPU: what the kernels here use of cuda.h.
#pragma once

#include <stddef.h>
#include <stdint.h>

// An array in memory as the tensor memory accelerator sees it. Dimension 0 is the contiguous one.
struct CUtensorMap {
    char* data;
    size_t element_bytes;
    size_t swizzle;  // bytes of a row within which 16-byte pieces are permuted; 0: none
    size_t rank;
    size_t extents[5];
    size_t strides[5];  // bytes
    size_t box[5];      // elements that a copy moves
};
