"""Splash attention: the cases that its wrapper supports, its mesh axis names, and its kernels.

The kernels are compared with the oracle in real processes.
"""

import importlib.util

import pytest
from flash_cases import CASES, flash
from in_part import in_part
from real_runs import agrees
from samples import a_case

from difftest.cases.case import Case, Training
from workers.backends import candidates
from workers.isolate import sandbox
from workers.xla import pallas, splash
from workers.xla.flash import partition_spec

needs_kernels = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("torch_xla", "jax", *splash.CALL_JAX))),
    reason="needs torchax: pip install 'difftest[xla,torchax]'",
)
SHOWN = {
    "segments": CASES["segments"],
    "both axes": flash(("dp", 2), ("tp", 2), segments=True, causal=True, head_dim=128),
    "heads that do not divide": CASES["heads that do not divide"],
    "bfloat16": CASES["bfloat16"],
    "checkpointing": CASES["checkpointing"],
    "grouped heads": CASES["grouped heads"],
    "two batch axes": flash(("dp", 2), ("dp_shard", 2), rows=4, causal=True, scale=0.25),
    "one device": flash(("dp", 1), causal=True, segments=True),
}


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretends that everything it needs is installed."""
    monkeypatch.setattr(pallas, "refusal", lambda _device: None)
    monkeypatch.setattr(splash, "find_spec", lambda _name: True)


def test_it_runs_only_if_named() -> None:
    assert "xla_splash" not in candidates()
    assert list(candidates(("xla_splash",))) == ["xla_splash"]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (flash(segments=True), None),
        (a_case(), "no attention by a kernel"),
        (flash(bias=True), "no bias"),
        (flash(length=256, keys=128), "as many keys as queries"),
        (flash(rows=3), "share the rows evenly"),
        (flash(rows=4, training=Training(accumulation=4)), "share the rows evenly"),
    ],
)
def test_cases_that_the_wrapper_cannot_express_are_refused(case: Case, reason: str | None) -> None:
    assert (splash.refusal(case) or "") == "" if reason is None else reason in (splash.refusal(case) or "")


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("missing", splash.CALL_JAX)
def test_without_the_packages_of_call_jax_the_refusal_names_them(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setattr(splash, "find_spec", lambda name: name != missing)
    assert "needs torchax and flax" in (splash.refusal(flash()) or "")


@pytest.mark.parametrize(
    ("case", "spec"),
    [
        (flash(), ("data", None, None, None)),
        (flash(("dp", 2), ("tp", 2)), ("data", "tp", None, None)),
        (flash(("tp", 2)), (None, "tp", None, None)),
        (flash(("dp", 2), ("dp_shard", 2), rows=4), (("data", "fsdp"), None, None, None)),
    ],
)
def test_the_axes_that_shard_the_batch_have_the_names_that_the_wrapper_asserts(
    case: Case, spec: tuple[object, ...]
) -> None:
    called = splash._names(case)  # noqa: SLF001
    assert tuple(splash._renamed(entry, called) for entry in partition_spec(case)) == spec  # noqa: SLF001


@pytest.mark.slow
@pytest.mark.xla
@needs_kernels
@pytest.mark.parametrize("name", in_part(sorted(SHOWN), 2))
def test_the_interpreted_kernels_agree_with_the_oracle(name: str) -> None:
    assert splash.refusal(SHOWN[name]) is None
    outcome = sandbox.run(SHOWN[name], "xla_splash", deadline=120.0)
    assert agrees(SHOWN[name], "xla_splash", outcome)
