"""Whether a fix holds: for the case of a fault, for cases near it, and without breaking others."""
