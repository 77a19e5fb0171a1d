"""What commands need to know of a backend, with what the backends of one side have in common.

A new backend of a known side takes that side's profile. A backend of a new side writes its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from difftest.cases import flags
from difftest.cases.case import Case


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A legal way of running a case: `of` gives the case that runs, with further environment variables."""

    name: str
    environment: Mapping[str, str] = field(default_factory=dict)
    of: Callable[[Case], Case] = lambda case: case


AGAIN = Variant(name="again")
"""The same in fresh processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What commands need to know of a backend.

    * `extras`: the extras of this package that bring what the backend needs, comma-separated, where those are
      not the usual ones. Such a backend runs only where it is named.
    * `only_named`: whether the backend, too, runs only where it is named: it takes long, or is another way of
      running what a usual one runs.
    * `variants`: legal ways of running the same thing, which the self-test's null campaign compares.
    * `mechanisms`: what its framework does behind every program and may do wrongly, each with the environment
      variables without which it is not done. A finding says whether it disappears then.
    * `stands_for_side`: whether the backend stands for its side where the self-test plants a fault into
      another side's backend.
    * `cost_unit`: whether the self-test gives the oracle's cost in units of this backend's run.
    * `on_pjrt`: whether it runs on a PJRT device, whose compiled graphs a reproducer can keep.
    * `follows`: the backend of whose processes it takes over what is compiled, where it may run behind it in
      the same; empty where it runs in processes of its own.
    * `runs_twins`: whether it is a reference, which runs the twins of cases alone (`difftest.cases.twins`).
    * `same_as`: the backend whose code this one runs on other devices; what can be planted there can be
      planted here too, where the self-test names this backend.
    """

    extras: str = ""
    only_named: bool = False
    variants: tuple[Variant, ...] = (AGAIN,)
    mechanisms: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    stands_for_side: bool = False
    cost_unit: bool = False
    on_pjrt: bool = False
    follows: str = ""
    same_as: str = ""
    runs_twins: bool = False


TORCH = Profile(
    variants=(
        AGAIN,
        Variant(name="threads", environment={"DIFFTEST_THREADS": "2"}),
        Variant(name="kernels", environment={"DIFFTEST_MKLDNN": "0"}),
    )
)
"""More threads, and other kernels, are legal."""

XLA = Profile(variants=(AGAIN, Variant(name="effort", of=flags.of_other_effort)), on_pjrt=True)
"""Machine code that is optimised, and that is not, are both legal."""

TORCH_XLA = replace(XLA, mechanisms={"runtime.cached_graphs": {"XLA_COMPILATION_CACHE_SIZE": "0"}})
"""torch_xla keeps compiled graphs by a hash of the inputs' shapes, which does not say what input goes where.

So one graph may run the code of another (pytorch/xla#8353).
"""

DEFINITION = "definition"
"""The side of references: what they show is torch's own fault, whatever the device."""

REFERENCES = Profile(only_named=True, runs_twins=True)
"""They run the twins of cases, which a campaign makes for them."""
