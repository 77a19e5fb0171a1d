"""What the backends over torch's own process groups share: one module for each thing that they do alike."""
