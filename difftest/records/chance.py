"""Whether a share of few is more than a limit, or may be so by chance."""

from math import exp, lgamma, log, log1p

ONCE_IN = 1000
"""How rare an accident must be: a campaign has some 100 backends and paths, and chance must make none red.

So of 4 comparisons at a limit of 5 %, 3 lost ones count and 2 do not; of 5 at 20 %, all must be inconclusive.
"""


def is_more_than(number: int, total: int, limit: float) -> bool:
    """Whether `number` of `total` exceed the share `limit`, and chance would do that once in `ONCE_IN` times.

    >>> is_more_than(2, 4, 0.05), is_more_than(3, 4, 0.05)
    (False, True)
    """
    if number <= limit * total:
        return False
    return limit <= 0.0 or sum(_exactly(k, total, limit) for k in range(number, total + 1)) < 1.0 / ONCE_IN


def _exactly(number: int, total: int, share: float) -> float:
    """How likely exactly `number` of `total` are, each with the likelihood `share` between 0 and 1."""
    ways = lgamma(total + 1) - lgamma(number + 1) - lgamma(total - number + 1)
    return exp(ways + number * log(share) + (total - number) * log1p(-share))
