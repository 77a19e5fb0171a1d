"""From two runs of a case to a verdict: outcomes, rounding noise, checks, divergences and blame."""
