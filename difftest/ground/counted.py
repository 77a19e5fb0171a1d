"""Counted things in words."""


def counted(number: int, what: str) -> str:
    """A number of things, such as `1 case` or `2,000 cases`."""
    return f"{number:,} {what}{'s' * (number != 1)}"
