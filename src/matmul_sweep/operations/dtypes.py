"""The number types of matrices: how they round, and what C++ calls them."""

from dataclasses import dataclass

import ml_dtypes  # noqa: F401 - gives NumPy the type bfloat16, by its name


@dataclass(frozen=True)
class Dtype:
    """A number type: bits of its mantissa with the leading one, bytes, and C++'s name."""

    name: str
    mantissa: int
    bytes: int
    cpp: str

    @property
    def roundoff(self) -> float:
        """The unit roundoff u: rounding to nearest errs by at most u times the value."""
        return 2.0**-self.mantissa


DTYPES = {
    dtype.name: dtype
    for dtype in (
        Dtype("bfloat16", 8, 2, "__nv_bfloat16"),
        Dtype("float16", 11, 2, "__half"),
        Dtype("int32", 32, 4, "int"),
        Dtype("float32", 24, 4, "float"),
        Dtype("float64", 53, 8, "double"),
    )
}
