"""Compile a CUDA source with NVRTC, whose packages have no nvcc: a program with nvcc's options.

It prints what nvcc prints: errors, and with -Xptxas -v the report of ptxas.
"""

import argparse
import ctypes
import re
import sys
import warnings
from collections.abc import Iterable
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p
from pathlib import Path

from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

from matmul_sweep.build.packages import COMPILERS, HEADERS, damaged, files_of, header_folders
from matmul_sweep.process.errors import UserError, command_line

FOR_NVCC = {"-cubin", "-O3"}  # NVRTC does both always, and knows neither option
# As nvcc does for every source: lambdas and constexpr functions of a kernel are the device's, and
# two names are defined.
AS_NVCC = [
    "-default-device",
    "-DINFINITY=__int_as_float(0x7f800000)",
    "-DNAN=__int_as_float(0x7fc00000)",
]
# An address in shared memory has 32 bits for nvcc and 64 for NVRTC. Where a kernel takes the lower
# 32, NVRTC goes on with 64, as in an operand of wgmma. Behind an empty asm it has only these.
ADDRESSES = "addresses_in_32_bits.h"
NO_BUILTINS = 7  # nvrtcResult
ABSENT = re.compile(r'cannot open source file "(.+)"')
# NVRTC has no C or C++ library. CCCL has one for the device, under other names.
C = ("assert", "float", "math", "stddef", "stdint", "stdlib")
CPP = ("limits", "type_traits", "utility", *(f"c{name}" for name in C))
NAMES = {name: name for name in CPP} | {f"{name}.h": f"c{name}" for name in C}
LIBRARY = {
    name: f"namespace cuda::std {{}}\n#include <cuda/std/{own}>\n"
    "namespace std { using namespace cuda::std; }\n"
    for name, own in NAMES.items()
} | {
    # What a kernel takes from it; the rest is the host's, which NVRTC refuses. Aligned as for nvcc:
    # 64 bytes, as in CUDA 12, let a map lie in two lines of 128 bytes.
    "cuda.h": "struct alignas(128) CUtensorMap { unsigned long long opaque[16]; };\n",
    ADDRESSES: """
static __device__ __forceinline__ size_t address_in_32_bits(const void* shared)
{
    unsigned address = (unsigned)__cvta_generic_to_shared(shared);
    asm("" : "+r"(address));
    return address;
}
#define __cvta_generic_to_shared(shared) address_in_32_bits(shared)
""",
}


# What kernels take of type_traits, where there is no CCCL, as beside PyTorch.
IS_SAME = """namespace std {
template <class A, class B> inline constexpr bool is_same_v = false;
template <class A> inline constexpr bool is_same_v<A, A> = true;
}
"""


def library() -> ctypes.CDLL:
    """NVRTC. Raises UserError if it is not there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of missing builtins, which compiling then reports
        try:
            return ctypes.CDLL(load_nvidia_dynamic_lib("nvrtc").abs_path)
        except DynamicLibNotFoundError:
            raise damaged("there is no libnvrtc", COMPILERS["cuda12"]) from None


def version(nvrtc: ctypes.CDLL) -> str:
    """As the line of `nvcc --version` that names the release."""
    major, minor = c_int(), c_int()
    nvrtc.nvrtcVersion(byref(major), byref(minor))
    return f"NVRTC, release {major.value}.{minor.value}"


def architectures(nvrtc: ctypes.CDLL) -> list[str]:
    """Those that it compiles for, such as sm_90."""
    count = c_int()
    nvrtc.nvrtcGetNumSupportedArchs(byref(count))
    found = (c_int * count.value)()
    nvrtc.nvrtcGetSupportedArchs(found)
    return [f"sm_{arch}" for arch in found]


def compiled(nvrtc: ctypes.CDLL, text: str, name: str, options: list[str]) -> tuple[bytes, str]:
    """A source as a cubin, which is empty where it does not compile, and what NVRTC says of it.

    Raises UserError if NVRTC lacks a file of its wheels.
    """
    program, folders = c_void_p(), header_folders()
    complete = any((Path(folder) / "cuda" / "std").is_dir() for folder in folders)
    headers = LIBRARY | ({} if complete else {"type_traits": IS_SAME})
    nvrtc.nvrtcCreateProgram(
        byref(program), text.encode(), name.encode(), len(headers), strings(headers.values()),
        strings(headers),
    )  # fmt: skip
    included = [f"-I{folder}" for folder in folders]
    options = [*AS_NVCC, f"-include={ADDRESSES}", *options, *included]
    status = nvrtc.nvrtcCompileProgram(program, len(options), strings(options))
    said = output(nvrtc, "ProgramLog", program).rstrip(b"\0\n").decode(errors="replace")
    if status == NO_BUILTINS:
        raise damaged(said.splitlines()[0].removeprefix("nvrtc: error: "), COMPILERS["cuda12"])
    check_headers(said)
    return b"" if status else output(nvrtc, "CUBIN", program), said


def strings(texts: Iterable[str]) -> "ctypes.Array[c_char_p]":
    encoded = [text.encode() for text in texts]
    return (c_char_p * len(encoded))(*encoded)


def output(nvrtc: ctypes.CDLL, what: str, program: c_void_p) -> bytes:
    """One of the results of a program, which NVRTC copies into a place of the size that it says."""
    size = c_size_t()
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{what}")(program, text)
    return text.raw


def check_headers(said: str) -> None:
    """Raise UserError if a header that was not found is one that a wheel brought."""
    for header in ABSENT.findall(said):
        for wheel, folder in HEADERS.items():
            if f"{folder}/{header}" in files_of(wheel):
                raise damaged(f"NVRTC cannot find {header}", wheel)


@command_line
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--version", action="store_true", help="print the version")
    parser.add_argument("--list-gpu-code", action="store_true", help="print the architectures")
    parser.add_argument("-o", type=Path, metavar="CUBIN", help="what to write")
    parser.add_argument("source", type=Path, nargs="?")
    options, others = parser.parse_known_args()
    nvrtc = library()
    if options.version:
        compiled(nvrtc, "", "empty", [])  # tells now of what is missing
        print(version(nvrtc))
    elif options.list_gpu_code:
        print(*architectures(nvrtc), sep="\n")
    elif options.source and options.o:
        pairs = zip(["", *others], others, strict=False)
        wanted = [own for before, own in pairs if before == "-Xptxas" or own not in FOR_NVCC]
        cubin, said = compiled(nvrtc, options.source.read_text(), str(options.source), wanted)
        print(said, file=sys.stderr)
        if not cubin:
            sys.exit(1)
        options.o.write_bytes(cubin)
    else:
        raise UserError("a source and -o CUBIN are needed; see --help")


if __name__ == "__main__":
    main()
