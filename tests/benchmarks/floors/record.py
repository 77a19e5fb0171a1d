"""One line of a calibration."""

import msgspec


class Record(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What was measured of one tensor of a sample, or why there are no figures.

    `simulated`, `native` and `xla` are root mean squares over the elements that are decided: of the simulated
    noise, and of the real errors. `native_worst` is the greatest error in floors of the simulation alone;
    `xla_worst` is in floors of a verdict, to which torch's own error belongs.
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
