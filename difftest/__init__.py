"""difftest: the same training configuration on CUDA and on XLA, and where they part."""

__version__ = "0.1.0"
