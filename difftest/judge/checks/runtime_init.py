"""Every process has one PJRT client a library and platform, and JAX's clients beside torch_xla's are guarded.

On a machine with one slice a second discovery of the devices does not change the numbers; with several slices
it waits for the first one forever.
"""

from collections import Counter
from collections.abc import Iterator

from difftest.judge.checks import Traits
from difftest.judge.divergence import Divergence
from difftest.judge.events import Client
from difftest.judge.facts import RemarkFacts
from difftest.judge.measured import MeasuredRun
from difftest.judge.outcome import Symptom

ORDER = 3
TRAITS = Traits()


def check(run: MeasuredRun) -> Iterator[Divergence]:
    """One divergence for each process, library and platform with a second or an unguarded client.

    Several processes may have a client each. Nothing is reported of a run that failed: its clients are not
    recorded.
    """
    clients = run.events.clients
    for process in dict.fromkeys(client.process for client in clients):
        yield from _of_process(run, [client for client in clients if client.process == process])


def _of_process(run: MeasuredRun, clients: list[Client]) -> Iterator[Divergence]:
    """The divergences of one process. An unguarded client comes first: it may be a second one too."""
    if any(client.library == "torch_xla" for client in clients):
        unguarded = [client for client in clients if client.library == "jax" and not client.guarded]
        for client in unguarded[:1]:  # the clients of further platforms follow from the first
            yield _divergence(run, client, f"jax creates a {client.platform} client without the guard")
    times: Counter[tuple[str, str]] = Counter()
    for client in clients:
        times[client.library, client.platform] += 1
        if times[client.library, client.platform] == 2:  # noqa: PLR2004  the second is one too many
            yield _divergence(run, client, f"{client.library} creates a second {client.platform} client")


def _divergence(run: MeasuredRun, client: Client, what: str) -> Divergence:
    at = f"step {client.step}, {client.stage}"
    return run.divergence(
        check="runtime_init",
        symptom=Symptom.MISMATCH,
        stage=client.stage,
        step=client.step,
        cause=f"{what}\n{client.caller}",
        facts=RemarkFacts(
            remark=f"{at}: {what}, beside torch_xla's; called from {client.caller or 'unknown'}", placed=False
        ),
    )
