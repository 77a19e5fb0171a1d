"""No campaign that compared nothing, or not what it should have, ends in status 0 or without its words."""

import dataclasses
from pathlib import Path

import msgspec
import numpy as np
import pytest
from in_part import runs_often
from samples import a_case, a_failure, oracle, with_pieces
from vacuous_campaigns import (
    CASES,
    SIDES,
    Answer,
    Fault,
    case_of,
    ended,
    failing,
    right,
    rounded,
    with_noise,
    with_tensors,
)

from difftest.cases.case import Case
from difftest.ground.errors import InfrastructureError, UnsupportedError
from difftest.judge.events import HostOperator
from difftest.judge.outcome import NO_DETERMINISTIC, Outcome, Sharded, Symptom, Trace
from difftest.judge.stage import Stage

BEFORE = "[[known]]\nupstream = 'an issue'\nreason = 'it is'\nexpires = 2099-01-01\n"


def on(names: str, change: "Answer") -> Answer:
    """A machine on which some backends, or those of a side, answer otherwise."""
    chosen = {
        name for name in (*SIDES, "oracle") if name in names.split() or SIDES.get(name) in names.split()
    }
    return lambda case, name: change(case, name) if name in chosen else right(case, name)


def raising(error: Exception) -> Answer:
    return lambda _case, _name: error  # type: ignore[return-value]


def sometimes(answer: Answer, *, every: int = 0, path: str = "") -> Answer:
    """The answer for every so manieth case, or for those of a path."""
    return lambda case, name: (
        answer(case, name) if (every and case.seed % every == 0) or case.path == path else right(case, name)
    )


def tensors(change: "object") -> Answer:
    return lambda case, name: with_tensors(_trace(case, name), change)  # type: ignore[arg-type]


def _trace(case: Case, name: str) -> Trace:
    outcome = right(case, name)
    assert isinstance(outcome, Trace)
    return outcome


def events(**changes: object) -> Answer:
    def answer(case: Case, name: str) -> Outcome:
        trace = _trace(case, name)
        return dataclasses.replace(trace, events=msgspec.structs.replace(trace.events, **changes))

    return answer


def filled(value: float) -> Answer:
    return tensors(
        lambda _name, one: dataclasses.replace(
            one, pieces={rank: np.full_like(piece, value) for rank, piece in one.pieces.items()}
        )
    )


def emptied(*, shape: bool, of: str = "") -> Answer:
    """Every tensor, or the one of this name, is without elements; `shape`: it says so itself."""

    def change(name: str, sharded: Sharded) -> Sharded:
        if of not in {"", name}:
            return sharded
        pieces = {rank: piece.reshape(-1)[:0] for rank, piece in sharded.pieces.items()}
        return dataclasses.replace(sharded, pieces=pieces, shape=(0,) if shape else sharded.shape)

    def answer(case: Case, name: str) -> Outcome:
        trace = with_tensors(_trace(case, name), change)
        noise = with_tensors(dataclasses.replace(trace, steps=trace.noise), change).steps
        return dataclasses.replace(trace, noise=noise)

    return answer


def environment(**words: str) -> Answer:
    return lambda case, name: dataclasses.replace(
        _trace(case, name), environment={**_trace(case, name).environment, **words}
    )


def still(case: Case, name: str) -> Outcome:
    """Everything is computed with a learning rate of 0."""
    return right(case.changed("training", learning_rate=0.0), name)


def one_bit(case: Case, _name: str) -> Outcome:
    """The last rank has a gradient of its own."""
    trace, key = rounded(case), (Stage.BACKWARD, "0.weight")
    last = max(trace.steps[0][key].pieces)
    return with_pieces(trace, 0, key, {last: trace.steps[0][key].pieces[last] * 1.5})


class Twice:
    """A machine whose runs differ from one another."""

    def __init__(self) -> None:
        self.runs = 0

    def __call__(self, case: Case, _name: str) -> Outcome:
        """A run that is right, with bits of its own."""
        self.runs += 1
        trace, key = rounded(case), (Stage.FORWARD, "output")
        pieces = {
            rank: piece * (1.0 + 2.0**-23 * (self.runs % 3))
            for rank, piece in trace.steps[0][key].pieces.items()
        }
        return with_pieces(trace, 0, key, pieces)


LOST, REFUSED = (
    raising(InfrastructureError("a node was lost")),
    raising(UnsupportedError("the package is too old")),
)
NO_KERNEL = f"histc_cuda {NO_DETERMINISTIC}"
DEAD = on("oracle", lambda _case, _name: a_failure(message="no memory"))
NEVER = "0 of 13 comparisons agreed"  # 12 cases and the control
UNDECIDED = "0 of 12 comparisons agreed"  # nothing was compared, so that there is no control
OTHER = environment(numbers="others")

FAULTS = {
    "xla raises": Fault(words=f"spmd: {NEVER}", answer=failing("it cannot")),
    "xla dies of a known fault": Fault(
        words=f"spmd: {NEVER}",
        answer=failing("the words of a known fault"),
        ledger=BEFORE + "fingerprint = '*-completion-*'\nwhat.message = '*the words of a known fault'\n",
    ),
    "xla crashes": Fault(words=f"tp: {NEVER}", answer=failing("", symptom=Symptom.CRASH, kind="SIGKILL")),
    "xla hangs": Fault(words=f"spmd: {NEVER}", answer=failing("", symptom=Symptom.HANG, kind="hang")),
    "xla is lost": Fault(words="side xla: 0 of 24 comparisons were made", answer=on("xla", LOST)),
    "xla refuses": Fault(words="12 refused (the package is too old)", answer=on("xla", REFUSED)),
    "xla has no deterministic kernel": Fault(
        words="12 refused (",
        answer=sometimes(failing(NO_KERNEL, symptom=Symptom.CAPABILITY), every=1),
    ),
    "xla has one in few cases": Fault(
        words="comparisons were refused in the run",
        answer=on(
            "spmd",
            sometimes(
                lambda _case, _name: a_failure(Symptom.CAPABILITY, message=NO_KERNEL), path="data_parallel"
            ),
        ),
        arguments=("--least-compared", "0.5"),
    ),
    "xla is not a number": Fault(words=f"spmd: {NEVER}", answer=on("xla", filled(np.nan))),
    "xla is zero": Fault(words=f"spmd: {NEVER}", answer=on("xla", filled(0.0))),
    "xla is empty": Fault(words=f"spmd: {NEVER}", answer=on("xla", emptied(shape=True))),
    "xla is empty, and says otherwise": Fault(words=f"spmd: {NEVER}", answer=on("xla", emptied(shape=False))),
    "xla has an empty loss": Fault(words=f"spmd: {NEVER}", answer=on("xla", emptied(shape=True, of="loss"))),
    "xla says that it is empty": Fault(
        words=f"spmd: {NEVER}",
        answer=on("xla", tensors(lambda _name, one: dataclasses.replace(one, shape=(0,)))),
    ),
    "no rank of xla holds anything": Fault(
        words=f"spmd: {NEVER}",
        answer=on("xla", tensors(lambda _name, one: dataclasses.replace(one, pieces={}))),
    ),
    "xla has a loss for every row": Fault(
        words=f"spmd: {NEVER}",
        answer=on(
            "xla",
            tensors(
                lambda name, one: (
                    dataclasses.replace(
                        one, shape=(4,), pieces={r: np.repeat(p, 4) for r, p in one.pieces.items()}
                    )
                    if name == "loss"
                    else one
                )
            ),
        ),
    ),
    "everything is empty": Fault(words="Nothing was compared.", answer=emptied(shape=True)),
    "the oracle is empty": Fault(words=f"ddp: {NEVER}", answer=on("oracle", emptied(shape=True))),
    "the oracle has no tensors": Fault(
        words="Nothing was compared.", answer=on("oracle", tensors(lambda _name, _one: None))
    ),
    "the oracle has no gradients": Fault(
        words="Nothing was compared.",
        answer=on("oracle", tensors(lambda name, one: one if name in {"loss", "output"} else None)),
    ),
    "the oracle has one step": Fault(
        words="Nothing was compared.",
        answer=on(
            "oracle",
            lambda case, name: dataclasses.replace(
                _trace(case, name), steps=_trace(case, name).steps[:1], noise=_trace(case, name).noise[:1]
            ),
        ),
    ),
    "nothing has tensors": Fault(words="Nothing was compared.", answer=tensors(lambda _name, _one: None)),
    "nothing has steps": Fault(
        words="Nothing was compared.",
        answer=lambda case, name: dataclasses.replace(_trace(case, name), steps=(), noise=()),
    ),
    "xla has no tensors": Fault(words=f"spmd: {NEVER}", answer=on("xla", tensors(lambda _name, _one: None))),
    "xla has no losses": Fault(
        words=f"spmd: {NEVER}", answer=on("xla", tensors(lambda name, one: None if name == "loss" else one))
    ),
    "xla has one step": Fault(
        words=f"spmd: {NEVER}",
        answer=on(
            "xla", lambda case, name: dataclasses.replace(_trace(case, name), steps=rounded(case).steps[:1])
        ),
    ),
    "xla has one rank": Fault(
        words=f"spmd: {NEVER}",
        answer=on("xla", tensors(lambda _name, one: dataclasses.replace(one, pieces={0: one.pieces[0]}))),
    ),
    "xla has another dtype": Fault(
        words=f"spmd: {NEVER}",
        answer=on("xla", tensors(lambda _name, one: dataclasses.replace(one, dtype="float16"))),
    ),
    "xla has other placements": Fault(
        words=f"spmd: {NEVER}",
        answer=on("xla", tensors(lambda _name, one: dataclasses.replace(one, placements=()))),
    ),
    "xla is on the host": Fault(
        words=f"spmd: {NEVER}",
        answer=on(
            "xla",
            lambda case, name: with_tensors(
                events(device="xla")(case, name),  # type: ignore[arg-type]
                lambda _name, one: dataclasses.replace(one, devices=("cpu",)),
            ),
        ),
    ),
    "an operator of xla is on the host": Fault(
        words=f"spmd: {NEVER}",
        answer=on("xla", events(device="xla", host_operators={"aten::nonzero": HostOperator(1)})),
    ),
    "an operator of xla is on another device": Fault(
        words=f"spmd: {NEVER}", answer=on("xla", events(device="xla", elsewhere={"MmBackward0 on cpu": 1}))
    ),
    "the host computes the optimizer": Fault(
        words=f"spmd: {NEVER}", answer=on("xla", events(device="xla", fetched=(2, 4)))
    ),
    "the host computes a layer": Fault(
        words=f"spmd: {NEVER}", answer=on("xla", events(device="xla", executed=(2, 4), requested=(1, 2)))
    ),
    "no graph runs": Fault(words=f"spmd: {NEVER}", answer=on("xla", events(device="xla", requested=(1, 2)))),
    "xla has other numbers": Fault(words=f"spmd: {UNDECIDED}", answer=on("xla", OTHER)),
    "ranks part": Fault(words=f"spmd: {NEVER}", answer=on("xla", one_bit)),
    "one backend is lost": Fault(
        words=f"fsdp: {UNDECIDED}", answer=on("fsdp", LOST), arguments=("--least-compared", "0.1")
    ),
    "one backend of four cases is lost": Fault(
        words="fsdp: 0 of 4 comparisons agreed",
        answer=on("fsdp", LOST),
        arguments=("--least-compared", "0.5"),
        unsupported={"fsdp": lambda case: "it cannot" if case.seed % 3 else None},
    ),
    "one backend refuses": Fault(
        words=f"tp: {UNDECIDED}", answer=on("tp", REFUSED), arguments=("--least-compared", "0.3")
    ),
    "one backend decides nothing": Fault(
        words=f"tp: {UNDECIDED}", answer=on("tp", OTHER), arguments=("--most-inconclusive", "0.6")
    ),
    "a path is lost": Fault(
        words="spmd on tensor_parallel: 0 of 6 comparisons were made",
        answer=on("spmd", sometimes(LOST, path="tensor_parallel")),
        arguments=("--least-compared", "0.7"),
    ),
    "a path is refused": Fault(
        words="spmd on tensor_parallel: 6 of 6 comparisons were refused in the run",
        answer=on("spmd", sometimes(REFUSED, path="tensor_parallel")),
        arguments=("--least-compared", "0.7", "--most-inconclusive", "0.4"),
    ),
    "a path decides nothing": Fault(
        words="spmd on tensor_parallel: 6 of 6 comparisons are inconclusive",
        answer=on("spmd", sometimes(OTHER, path="tensor_parallel")),
        arguments=("--most-inconclusive", "0.3"),
    ),
    "every sixth run of xla is lost": Fault(
        words="side xla: 20 of 24 comparisons were made", answer=on("xla", sometimes(LOST, every=6))
    ),
    "the oracle is dead": Fault(words="Nothing was compared.", answer=DEAD),
    "no limit, and the oracle is dead": Fault(
        words="Nothing was compared.",
        answer=DEAD,
        arguments=("--least-compared", "0", "--fail-on", "never", "--most-inconclusive", "1"),
    ),
    "the oracle is lost": Fault(words="Nothing was compared.", answer=on("oracle", LOST)),
    "the oracle's gradients are wrong": Fault(
        words=f"ddp: {NEVER}",
        answer=on(
            "oracle",
            lambda case, name: dataclasses.replace(
                _trace(case, name),
                steps=tuple(
                    {
                        (at, of): dataclasses.replace(
                            one,
                            pieces={
                                r: p * (-1.0 if at is Stage.BACKWARD else 1.0) for r, p in one.pieces.items()
                            },
                        )
                        for (at, of), one in step.items()
                    }
                    for step in oracle(case).steps
                ),
            ),
        ),
    ),
    "everything is zero": Fault(words="Nothing was compared.", answer=filled(0.0)),
    "everything is one": Fault(words="Nothing was compared.", answer=filled(1.0)),
    "a learning rate of 0": Fault(words="parameters do not move", answer=still),
    "rounding 300 times too large": Fault(
        words="the judge itself is in doubt",
        answer=on("oracle", lambda case, name: with_noise(_trace(case, name), 300.0)),
    ),
    "rounding a million times too large": Fault(
        words="rounding noise is as large as the values",
        answer=on("oracle", lambda case, name: with_noise(_trace(case, name), 1e7)),
    ),
    "rounding too small": Fault(
        words=f"ddp: {NEVER}", answer=on("oracle", lambda case, name: with_noise(_trace(case, name), 1e-4))
    ),
    "values out of range": Fault(words="Nothing was compared.", answer=on("oracle", events(in_range=False))),
    "torch's own run is far off": Fault(
        words="Nothing was compared.", answer=on("oracle", events(native=1e4))
    ),
    "torch is lost": Fault(words="side torch: 0 of 24", answer=on("torch", LOST)),
    "torch is wrong": Fault(words=f"ddp: {NEVER}", answer=on("ddp", filled(0.5))),
    "no side of xla": Fault(
        words="side xla: nothing was compared",
        unsupported={name: lambda _case: "it cannot" for name in ("spmd", "tp")},
    ),
    "a ledger of everything": Fault(
        words="is known by the ledger", answer=on("xla", filled(0.5)), ledger=BEFORE + "fingerprint = '*'\n"
    ),
    "a known fault jumps": Fault(
        words="15 of 16 comparisons are the known fault an issue",
        answer=on("spmd", lambda case, name: filled(0.5)(case, name) if case.seed else right(case, name)),
        cases=tuple(a_case(seed=seed) for seed in range(16)),
        ledger=BEFORE + "fingerprint = 'spmd-*'\n",
    ),
    "runs differ from one another": Fault(words="run again", answer=on("spmd", Twice()), status=1),
}


def test_the_same_campaign_without_a_fault_is_green(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = ended(tmp_path / "out", Fault(words=""), monkeypatch)
    assert done.status == 0, done.printed + done.error
    assert (done.summary["opening"], done.summary["incomplete"], done.summary["unusual"]) == ("", [], [])
    assert "No findings need you." in done.page
    assert case_of(0).path != case_of(1).path
    assert done.summary["cases"] == CASES


@pytest.mark.long
@pytest.mark.parametrize("name", FAULTS)
def test_a_vacuous_campaign_ends_in_no_green_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    fault, page = FAULTS[name], runs_often(name, 6)  # to write a page takes a quarter of the time
    formats = ("summary", "markdown", *(["html"] if page else []))
    done = ended(tmp_path / "out", fault, monkeypatch, formats)
    assert done.status == fault.status, done.printed + done.error
    plain = done.markdown.replace("\\", "")
    assert fault.words in done.printed
    assert fault.words in plain
    if fault.status == 3:
        assert done.summary["opening"] in {
            "Nothing was compared.",
            "Too little was compared.",
            "The judge itself is in doubt.",
        }
        assert "No findings need you" not in done.printed + plain
        assert done.printed.startswith(done.summary["opening"])
        assert plain.partition("**")[2].startswith(done.summary["opening"])
    if fault.status == 3 and page:
        assert f'<p class="verdict">{done.summary["opening"]}' in done.page
        assert "No findings need you" not in done.page
