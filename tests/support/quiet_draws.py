"""Settings of Hypothesis for tests that draw whole cases: each may take its time, and be large."""

from hypothesis import HealthCheck, settings


def quietly(most: int = 60) -> settings:
    """So many examples, without a deadline and without health checks."""
    return settings(max_examples=most, deadline=None, suppress_health_check=list(HealthCheck))
