"""TorchTPU (torch_tpu) without a TPU: on OpenXLA's CPU plugin, behind a PJRT plugin of our own (`shim/`)."""
