"""The number types of matrices: all that the project knows of each, once."""

from dataclasses import dataclass

import ml_dtypes  # noqa: F401 - gives NumPy the type bfloat16, by its name


@dataclass(frozen=True)
class Units:
    """A kind of units that multiply numbers of a type."""

    name: str  # in ceilings.csv
    rate: str  # in the table of architectures, and before `_peak_tflops` in device.json
    words: str


@dataclass(frozen=True)
class Dtype:
    """A number type: bits of its mantissa with the leading one, bytes, its names in C++ (the first
    is the one that we use), its numbers in CUtensorMapDataType (cuda.h) and cudaDataType_t
    (library_types.h), and the units that multiply it."""

    name: str
    mantissa: int
    bytes: int
    names: tuple[str, ...]
    tensor_map: int
    library: int
    units: tuple[Units, ...] = ()

    @property
    def cpp(self) -> str:
        return self.names[0]

    @property
    def roundoff(self) -> float:
        """The unit roundoff u: rounding to nearest errs by at most u times the value."""
        return 2.0**-self.mantissa


BFLOAT16_TENSOR = Units("tensor_bfloat16", "bf16_tensor", "bfloat16 tensor cores")
FLOAT16_TENSOR = Units("tensor_float16", "fp16_tensor", "float16 tensor cores")
FLOAT32_VECTOR = Units("multiply_add_float32", "fp32", "float32 units")
FLOAT64_TENSOR = Units("tensor_float64", "fp64_tensor", "float64 tensor cores")
FLOAT64_VECTOR = Units("multiply_add_float64", "fp64", "float64 vector units")

DTYPES = {
    dtype.name: dtype
    for dtype in (
        Dtype("int8", 8, 1, ("signed char",), 0, 3),
        Dtype("int16", 16, 2, ("short",), 1, 20),
        Dtype("int64", 64, 8, ("long",), 5, 24),
        Dtype("bfloat16", 8, 2, ("__nv_bfloat16", "nv_bfloat16"), 9, 14, (BFLOAT16_TENSOR,)),
        Dtype("float16", 11, 2, ("__half", "half"), 6, 2, (FLOAT16_TENSOR,)),
        Dtype("int32", 32, 4, ("int",), 3, 10),
        Dtype("float32", 24, 4, ("float",), 7, 0, (FLOAT32_VECTOR,)),
        Dtype("float64", 53, 8, ("double",), 8, 1, (FLOAT64_TENSOR, FLOAT64_VECTOR)),
    )
}
UNITS = {units.name: units for dtype in DTYPES.values() for units in dtype.units}
