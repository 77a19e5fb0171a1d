"""One line of a calibration."""

import msgspec


class Record(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What was measured of one tensor of a sample, or why there are no figures.

    `scale` and `simulated` are root mean squares of the values and of the simulated noise, over the elements
    that are decided. `native` and `xla` are those of the real errors, in floors of the simulation alone, over
    the elements that are not exact: 0 where all are. `native_worst` is the greatest of torch's; `xla_worst`
    is XLA's in floors of a verdict, to which torch's own error belongs.
    """

    operator: str
    dtype: str
    sample: int = -1
    tensor: str = ""
    elements: int = 0
    scale: float = 0.0
    simulated: float = 0.0
    native: float = 0.0
    native_worst: float = 0.0
    xla: float | None = None
    xla_worst: float = 0.0
    reason: str = ""
