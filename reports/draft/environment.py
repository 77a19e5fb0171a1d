"""What a maintainer reads of `collect_env`: versions, system and GPU, without the processor's flags."""

from collections.abc import Iterator

KEPT = (
    *("PyTorch version", "CUDA used to build", "ROCM used to build", "OS", "Libc version", "Python version"),
    *("Is CUDA available", "GPU models", "Nvidia driver", "cuDNN version"),
)
PACKAGES = frozenset({"jax", "jaxlib", "numpy", "torch", "torch-xla", "torch_xla", "torchax", "torch_tpu"})
NOTHING = frozenset({"N/A", "Could not collect", ""})


def short(collected: str) -> str:
    """The lines with something in them; a text of another form, such as why there is none, as it is."""
    return "\n".join(_lines(collected)) or collected


def _lines(collected: str) -> Iterator[str]:
    for line in collected.splitlines():
        name, _, value = line.partition(":")
        pip = line.removeprefix("[pip3] ")
        if pip != line and pip.partition("==")[0] in PACKAGES:
            yield pip
        elif name.startswith(KEPT) and value.strip() not in NOTHING:
            yield line
