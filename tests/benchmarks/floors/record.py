"""One line of a calibration."""

import msgspec


class Record(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What was measured of one tensor of a sample, or why there are no figures.

    `elements` are decided, and `wrong` of them have an error in torch's own run. `scale` and `simulated` are
    root mean squares of the values and of the simulated noise, over the elements that are decided. `native`
    and `xla` are the real errors in units of the simulated noise, both as root mean squares over the elements
    that have an error, 0 where none has. `native_typical` and `xla_typical` are medians of these elements'
    own quotients. `native_worst` is the greatest of torch's in floors of the simulation alone; `xla_worst`
    is XLA's in floors of a verdict, to which torch's own error belongs.
    """

    operator: str
    dtype: str
    sample: int = -1
    tensor: str = ""
    elements: int = 0
    wrong: int = 0
    scale: float = 0.0
    simulated: float = 0.0
    native: float = 0.0
    native_typical: float = 0.0
    native_worst: float = 0.0
    xla: float | None = None
    xla_typical: float = 0.0
    xla_worst: float = 0.0
    reason: str = ""
