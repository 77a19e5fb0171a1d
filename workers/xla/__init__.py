"""What the backends on XLA share: one module for each thing that they do alike, SPMD or replicas."""
