"""What several backends on XLA do, under SPMD or with replicas: a module for each thing."""
