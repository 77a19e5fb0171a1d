"""What a test calls a layout (`difftest.check(build, batch, layouts=["ddp"])`)."""

from collections.abc import Mapping

LAYOUTS: Mapping[str, tuple[str, str]] = {
    "ddp": ("data_parallel", "torch_ddp"),
    "fsdp": ("fully_sharded", "torch_fsdp"),
    "dtensor": ("data_parallel", "torch_dtensor"),
    "tensor_parallel": ("tensor_parallel", "torch_dtensor"),
    "parallelize": ("tensor_parallel", "torch_tp"),
    "spmd": ("data_parallel", "xla_spmd"),
    "replicas": ("data_parallel", "xla_ddp"),
}
"""The path and the backend of every layout."""
