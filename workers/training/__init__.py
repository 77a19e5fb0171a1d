"""Training, written once for all backends: the model as a torch module, the loop, and the oracle's simulated rounding."""
