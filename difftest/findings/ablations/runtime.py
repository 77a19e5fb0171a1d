"""torch_xla below the model: without functionalization, and with the other kind of client."""

from collections.abc import Iterator

import msgspec

from difftest.findings.ablations import Ablation, Asked

ORDER = 40
ASYNCHRONOUS = "PJRT_CPU_ASYNC_CLIENT"
"""torch_xla's name for it."""


def ablations(asked: Asked) -> Iterator[Ablation]:
    """The client is an option of the case, so that a finding's own is kept with it."""
    if asked.framework != "torch_xla":
        return
    yield asked.changed("functionalization is off", XLA_DISABLE_FUNCTIONALIZATION="1")
    start = asked.case.start
    kind = "synchronous" if start.asynchronous else "asynchronous"
    if start.asynchronous and asked.environment.get(ASYNCHRONOUS) == "false":
        yield asked.impossible(f"the client is {kind}", f"that of {asked.backend} always is")
    else:
        other = msgspec.structs.replace(start, asynchronous=not start.asynchronous)
        yield asked.changed(f"the client is {kind}", case=msgspec.structs.replace(asked.case, start=other))
