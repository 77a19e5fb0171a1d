"""torch_xla below the model: without functionalization, or with the other kind of PJRT client."""

from collections.abc import Iterator

import msgspec

from difftest.findings.ablations import Ablation, Baseline

ORDER = 40
ASYNCHRONOUS = "PJRT_CPU_ASYNC_CLIENT"
"""The environment variable with which torch_xla chooses the kind of client."""


def ablations(baseline: Baseline) -> Iterator[Ablation]:
    """Those of torch_xla. The kind of client is an option of the case, so a finding keeps its own."""
    if baseline.framework != "torch_xla":
        return
    yield baseline.changed("functionalization is off", XLA_DISABLE_FUNCTIONALIZATION="1")
    start = baseline.case.start
    kind = "synchronous" if start.asynchronous else "asynchronous"
    if start.asynchronous and baseline.environment.get(ASYNCHRONOUS) == "false":
        yield baseline.impossible(f"the client is {kind}", f"that of {baseline.backend} always is")
    else:
        other = msgspec.structs.replace(start, asynchronous=not start.asynchronous)
        yield baseline.changed(
            f"the client is {kind}", case=msgspec.structs.replace(baseline.case, start=other)
        )
