"""The one door by which values of a case reach a script: as Python spells a plain value."""

PLAIN = (bool, int, float, str, type(None))
"""What may be in a tuple, a list or a dict, or alone; nothing that is derived from these."""


def python(value: object) -> str:
    """`value` as Python; `TypeError` for what is not `PLAIN` or made of it."""
    if not _is_plain(value):
        msg = f"a script is given {value!r}; allowed: numbers, texts, None, and tuples, lists, dicts of them"
        raise TypeError(msg)
    return repr(value)


def _is_plain(value: object) -> bool:
    if isinstance(value, dict):
        return type(value) is dict and all(map(_is_plain, (*value, *value.values())))
    if isinstance(value, tuple | list):
        return type(value) in (tuple, list) and all(map(_is_plain, value))
    return type(value) in PLAIN
