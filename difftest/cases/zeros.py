"""Zeros whose sign no documentation of torch says: 0.0 and -0.0 are equal, and either may be the result."""

EITHER_IN_ATEN = frozenset(
    {
        *("amax", "amin", "aminmax", "clamp", "clamp_max", "clamp_min", "cummax", "cummin", "elu", "fmax"),
        *("fmin", "fmod", "lerp", "max", "maximum", "min", "minimum", "remainder", "sgn", "sign"),
        "softshrink",
    }
)
"""Operators with such zeros that users and ATen call by the same name."""
