"""What differs between two runs besides their numbers: environment, modules' arguments, batches and data."""

import re
from collections.abc import Mapping, Sequence

from difftest.runs import layout
from difftest.runs.align import renamed
from difftest.runs.comparison import DATA, Setting, WrongTensor
from difftest.runs.layout import ModuleDescription
from difftest.runs.read import RecordedRun

ARGUMENTS = re.compile(r", (?=\w+=)")
"""What is between the arguments that a module prints."""

SAME_ORDER = 1e-3
"""Inputs with equal digests whose difference is a greater share of their norm are in another order."""


def differences(first: RecordedRun, second: RecordedRun, names: Mapping[str, str]) -> list[Setting]:
    """Everything that differs but the numbers, the environment first."""
    mine, other = first.environment, second.environment
    differences = [
        Setting(name=name, first=mine.settings.get(name, ""), second=other.settings.get(name, ""))
        for name in dict.fromkeys((*mine.settings, *other.settings))
        if mine.settings.get(name) != other.settings.get(name)
    ]
    for name, values in (
        ("ranks", (mine.world_size, other.world_size)),
        ("data-parallel ranks", (mine.data_ranks, other.data_ranks)),
        (
            "micro-batches of a step",
            tuple(run.ranks[0].steps[run.steps[0]].microbatches for run in (first, second)),
        ),
        ("samples of a step", (samples(first), samples(second))),
        ("parameters' dtypes", tuple(_dtypes(run, layout.START, layout.UPDATED) for run in (first, second))),
        ("outputs' dtypes", tuple(_dtypes(run, layout.OUTPUT) for run in (first, second))),
        ("learning rates", _rates(first, second)),
        ("perturbed, in units in the last place", (mine.perturbed, other.perturbed)),
    ):
        if values[0] != values[1]:
            differences.append(Setting(name=name, first=str(values[0]), second=str(values[1])))
    return [*differences, *_modules(first, second, names), *_ranks(first), *_ranks(second)]


def samples(run: RecordedRun) -> int:
    """The samples of the first step, of all data-parallel ranks."""
    step = run.steps[0]
    copies = run.environment.world_size // max(1, run.environment.data_ranks)
    return sum(rank.steps[step].samples for rank in run.ranks) // max(1, copies)


def _dtypes(run: RecordedRun, *kinds: str) -> str:
    return ", ".join(
        sorted({tensor.dtype for tensor in run.ranks[0].tensors.values() if tensor.kind in kinds})
    )


def _rates(first: RecordedRun, second: RecordedRun) -> tuple[str, str]:
    """The learning rates of the first step in which they differ."""
    for step in sorted({*first.steps} & {*second.steps}):
        rates = [run.ranks[0].steps[step].rates for run in (first, second)]
        if rates[0] != rates[1]:
            one, two = (", ".join(f"{rate:g}" for rate in each) for each in rates)
            return f"{one} in step {step}", f"{two} in step {step}"
    return "", ""


def _modules(first: RecordedRun, second: RecordedRun, names: Mapping[str, str]) -> list[Setting]:
    """The modules of other arguments, such as another epsilon."""
    other = {module.path: module for module in second.environment.modules}
    pairs = [(module, other.get(renamed(module.path, names))) for module in first.environment.modules]
    alike = [(one, two) for one, two in pairs if two and two.kind == one.kind]
    releases = {run.environment.settings.get("torch") for run in (first, second)}
    unshown = _unshown(alike) if len(releases) > 1 else set()
    differences = []
    for one, two in alike:
        mine, theirs = ARGUMENTS.split(one.arguments), ARGUMENTS.split(two.arguments)
        apart = [
            ", ".join(each for each in own if each not in against and (one.kind, _key(each)) not in unshown)
            for own, against in ((mine, theirs), (theirs, mine))
        ]
        if any(apart):
            name = f"{one.path or 'the model'} ({one.kind})"
            differences.append(Setting(name=name, first=apart[0], second=apart[1]))
    return differences


def _unshown(pairs: Sequence[tuple[ModuleDescription, ModuleDescription]]) -> set[tuple[str, str]]:
    """The arguments that all modules of a class print in one release and none in the other."""
    keys: dict[str, tuple[list[set[str]], list[set[str]]]] = {}
    for pair in pairs:
        for module, own in zip(pair, keys.setdefault(pair[0].kind, ([], [])), strict=True):
            own.append({_key(each) for each in ARGUMENTS.split(module.arguments)})
    return {
        (kind, key)
        for kind, (first, second) in keys.items()
        for always, other in ((first, second), (second, first))
        for key in set[str].intersection(*always) - set[str]().union(*other)
    }


def _key(argument: str) -> str:
    return argument.partition("=")[0]


def _ranks(run: RecordedRun) -> list[Setting]:
    """Settings in which the ranks of one run differ. Seeds may."""
    usual = run.environment.settings
    return [
        Setting(
            name=f"{name} in {run.name}",
            first=f"rank 0: {value}",
            second=f"rank {rank.environment.rank}: {own}",
        )
        for name, value in usual.items()
        for rank in run.ranks
        if name != "seed"
        and not name.startswith("$")
        and (own := rank.environment.settings.get(name, "")) != value
    ]


def different_data(
    first: RecordedRun, second: RecordedRun, step: int, names: Mapping[str, str]
) -> tuple[WrongTensor, str] | None:
    """The first input that differs in a step, and in which way; None where no samples do."""
    mine, other = first.digests(step), second.digests(step)
    for name, digest in mine.items():
        match = other.get(renamed(name, names))
        if match is None or digest == match:
            continue
        shifted = digest[1] == match[2] or digest[2] == match[1]
        words = "the same numbers shifted by one position" if shifted else "other samples"
        same = [each for each, value in mine.items() if other.get(renamed(each, names)) == value]
        words += f", while input {', '.join(same)} is equal: look at the labels" if shifted and same else ""
        return WrongTensor(step=step, kind=DATA, owner=name), words
    return None


def another_order(first: RecordedRun, second: RecordedRun, step: int, names: Mapping[str, str]) -> bool:
    """Whether a step's samples, which are the same, have another order over batch, ranks or micro-batches."""
    mine, other = first.whole(step), second.whole(step)
    for name in first.digests(step):
        one, two = (
            whole.get((layout.INPUT, own, "")) for whole, own in ((mine, name), (other, renamed(name, names)))
        )
        if one and two and one.shape == two.shape:
            off = float(((one.sketch - two.sketch) ** 2).sum() ** 0.5)
            if off > SAME_ORDER * max(one.norm, two.norm):
                return True
    return False
