"""The environment variables that processes inherit which difftest starts for a run: by an allow-list.

A run executes frameworks, and perhaps a user's module, whose output is kept and drafted. A secret in the
environment, whatever its name is, does not reach it.
"""

import os
from collections.abc import Mapping

from difftest.ground.credentials import is_secret

VARIABLE = "DIFFTEST_INHERIT"
"""Names further variables that runs inherit, separated by commas."""

ALWAYS = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "TMPDIR", "TPU_LIBRARY_PATH")
"""What a script inherits too; it sets any others that it needs.

The last one names the library that torch_tpu loads in place of libtpu.
"""

NAMES = frozenset(ALWAYS) | {
    *("USER", "LOGNAME", "SHELL", "TERM", "TZ", "LANGUAGE", "PWD", "TEMP", "TMP", "HOSTNAME", "COLUMNS"),
    *("VIRTUAL_ENV", "CONDA_PREFIX", "LD_PRELOAD", "CC", "CXX", "CUDACXX", "GLIBC_TUNABLES"),
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
    *("CPU_NUM_DEVICES", "ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS", "NO_COLOR"),
}
PREFIXES = (
    *("LC_", "PYTHON", "XDG_", "DIFFTEST_", "RAY_", "COVERAGE_"),
    *("TORCH_", "TORCHINDUCTOR_", "TORCHAX_", "PYTORCH_", "ATEN_", "C10_", "TRITON_", "GLOO_", "UCX_"),
    *("XLA_", "PJRT_", "PT_XLA_", "XRT_", "TPU_", "LIBTPU_", "JAX_", "TF_CPP_", "TF_XLA_", "GRPC_", "GLOG_"),
    *("NCCL_", "CUDA_", "CUBLAS_", "CUBLASLT_", "CUDNN_", "NVIDIA_", "HIP_", "ROCM_", "ROCR_", "HSA_"),
    *("MIOPEN_", "OMP_", "GOMP_", "KMP_", "MKL_", "MKLDNN_", "DNNL_", "ONEDNN_", "OPENBLAS_", "NVPL_"),
    *("NUMEXPR_", "MALLOC_", "TCMALLOC_"),
)
"""What Python, the frameworks and their libraries read has such a name."""


def inherited(variables: Mapping[str, str]) -> dict[str, str]:
    """Those of `variables` that a run inherits.

    Of those on the list the ones are left out whose names say that they are secret, or whose values are URLs
    with passwords. What the user names in `DIFFTEST_INHERIT` passes whatever it is.
    """
    named = {name.strip() for name in variables.get(VARIABLE, "").split(",")}
    return {
        name: value
        for name, value in variables.items()
        if name in named or ((name in NAMES or name.startswith(PREFIXES)) and not is_secret(name, value))
    }


def by_scripts() -> dict[str, str]:
    """The variables of this process that a script inherits."""
    return {name: os.environ[name] for name in ALWAYS if name in os.environ}
