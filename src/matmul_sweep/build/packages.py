"""The packages of CUDA: which of the dependency groups of pyproject.toml is installed, and the
commands that install one."""

from importlib.metadata import PackageNotFoundError, distribution

from matmul_sweep.process.errors import UserError

# The wheel of each group that has its compiler. PyPI has no nvcc of CUDA 12.
COMPILERS = {"cuda13": "nvidia-cuda-nvcc", "cuda12": "nvidia-cuda-nvrtc-cu12"}
BESIDE_PYTORCH = "nvidia-cuda-nvrtc"  # NVRTC of CUDA 13, which PyTorch's wheels bring
# The wheels of the headers that NVRTC reads, and the folder of each.
HEADERS = {
    "nvidia-cuda-runtime": "nvidia/cu13/include",
    "nvidia-cuda-runtime-cu12": "nvidia/cuda_runtime/include",
    "nvidia-cuda-crt": "nvidia/cu13/include",
    "nvidia-cuda-cccl-cu12": "nvidia/cuda_cccl/include",
}
SYNC = {"cuda13": "uv sync", "cuda12": "uv sync --no-group cuda13 --group cuda12"}
# Each `uv run` would install the default group again.
TAKE_CUDA_12 = f"run `{SYNC['cuda12']}; export UV_NO_SYNC=1`, then the same command again"


def installed() -> str | None:
    """The group that is installed, or None. Raises UserError if both are."""
    groups = [group for group, wheel in COMPILERS.items() if files_of(wheel)]
    if len(groups) > 1:
        raise UserError(
            "the packages of CUDA 12 and of CUDA 13 are both installed: run "
            f"`{SYNC['cuda13']}`, or `{SYNC['cuda12']}` for CUDA 12"
        )
    return groups[0] if groups else None


def files_of(wheel: str) -> list[str]:
    """The files that a wheel brought, whether or not they are still there; none without it."""
    try:
        return [str(file) for file in distribution(wheel).files or []]
    except PackageNotFoundError:
        return []


def header_folders() -> list[str]:
    """The folders of the headers, of wheels that are installed."""
    return [str(distribution(w).locate_file(HEADERS[w])) for w in HEADERS if files_of(w)]


def damaged(what: str, wheel: str) -> UserError:
    """The error for a file that a wheel of CUDA 12 lacks."""
    return UserError(f"{what}: run `{SYNC['cuda12']} --reinstall-package {wheel}`")
