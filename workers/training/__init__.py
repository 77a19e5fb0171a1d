"""Training, written once for all backends: the model in torch, the loop, and simulated rounding."""
