"""Hunting a race: a case again and again under load, and how often each outcome came."""

import psutil

from difftest.commands.replay import busy, rates


def result(backend: str, verdict: str, *fingerprints: str) -> dict[str, object]:
    return {"backend": backend, "verdict": verdict, "fingerprints": list(fingerprints)}


def test_outcomes_are_counted_by_backend_the_most_frequent_first() -> None:
    crash = "xla_spmd-completion-crash-00000000"
    results = [result("xla_spmd", "agree"), *[result("xla_spmd", "diverge", crash)] * 2, result("torch_ddp", "unsupported")]
    assert rates(results) == {"xla_spmd": {crash: 2, "agree": 1}, "torch_ddp": {"unsupported": 1}}
    assert list(rates(results)["xla_spmd"]) == [crash, "agree"]


def test_load_runs_beside_and_ends_with_the_hunt() -> None:
    def children() -> int:
        return len(psutil.Process().children())

    before = children()
    with busy(2):
        assert children() == before + 2
    assert children() == before
