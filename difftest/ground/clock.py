"""The wall clock. Times on disk and expiry dates are in UTC; durations use `time.monotonic`."""

from datetime import UTC, date, datetime


def utc_now() -> datetime:
    """The time, to the second; its `isoformat()` is what files hold."""
    return datetime.now(UTC).replace(microsecond=0)


def utc_today() -> date:
    """The date."""
    return utc_now().date()
