"""Every device has one PJRT client: no library discovers it twice, and none of JAX's stands unguarded beside torch_xla's.

On a machine with one slice nothing of this shows in the numbers; with several slices the second discovery waits for the first forever.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from difftest.judge.divergence import Divergence
from difftest.judge.measured import Pair
from difftest.judge.outcome import Failure, Stage, Symptom

ORDER = 3

Client: TypeAlias = Mapping[str, Any]


def check(seen: Pair) -> Iterator[Divergence]:
    """One divergence a library and platform discovered too often or without the guard; what a failed run did is not known."""
    if isinstance(seen.actual, Failure):
        return
    clients: list[Client] = list(seen.actual.events.get("clients", ()))
    if any(
        client["library"] == "torch_xla" for client in clients
    ):  # first, for a client without the guard may be a second one too
        yield from (
            _divergence(seen, client, f"jax creates a {client['platform']} client without the guard")
            for client in _unguarded(clients)
        )
    times: Counter[tuple[str, str]] = Counter()
    for client in clients:
        library, platform = client["library"], client["platform"]
        times[library, platform] += 1
        if times[library, platform] == 2:  # noqa: PLR2004  the second is one too many
            yield _divergence(seen, client, f"{library} creates a second {platform} client")


def _unguarded(clients: list[Client]) -> list[Client]:
    """The first of JAX's clients that came without the guard: where one platform did, the others followed it."""
    return [client for client in clients if client["library"] == "jax" and not client["guarded"]][:1]


def _divergence(seen: Pair, client: Client, what: str) -> Divergence:
    stage, step, caller = Stage(client["stage"]), client["step"], client["caller"]
    return seen.divergence(
        check="runtime_init",
        symptom=Symptom.MISMATCH,
        stage=stage,
        step=step,
        cause=f"{what}\n{caller}",
        detail=f"step {step}, {stage}: {what}, beside torch_xla's; called from {caller or 'unknown'}",
    )
