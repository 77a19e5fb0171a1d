"""TorchTPU (torch_tpu) without a TPU: OpenXLA's CPU plugin or JAX's for GPUs, behind our own."""
