"""Kernels for CUDA matrix multiplication, the experiment that measures them, and the classroom.

>>> import matmul_sweep
>>> c = matmul_sweep.gemm(a, b)  # of PyTorch, CuPy, JAX, Numba or NumPy (docs/library.md)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matmul_sweep.api.preparing import kernels, prepare
    from matmul_sweep.api.products import gemm, gram

__version__ = "1.1.0"
__all__ = ["gemm", "gram", "kernels", "prepare"]


def __getattr__(name: str) -> Any:
    """Import the library when it is used: the experiment's programs start without it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    room = "products" if name in ("gemm", "gram") else "preparing"
    found = globals()[name] = getattr(import_module(f"{__name__}.api.{room}"), name)
    return found
