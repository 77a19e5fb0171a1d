"""Models of known faults of operators predict what real programs with these faults give."""

import pytest
from installed_packages import needs
from msgspec.structs import replace
from real_runs import oracle_trace
from sample_programs import a_call, a_program

from difftest.cases.case import Case, Data
from difftest.cases.layers.operator import Argument, Items, Operand, Operator, Reference
from difftest.cases.layout import Placements, Replicate, Shard
from difftest.findings.ledger import read_ledger
from difftest.ground import plugins
from difftest.ground.clock import utc_today
from difftest.judge.comparator import compare
from difftest.judge.divergence import Divergence

pytestmark = pytest.mark.slow
needs("torch", reason="needs torch: pip install 'difftest[xla]'")

from workers.isolate import sandbox  # noqa: E402

SECONDS = 120.0
INPUT = Reference("input")
ZEROS = Data(batch=1, regime="signed_zeros")
SMALL = (1e-3, -2e-3, 5e-4, 0.0)
"""Numbers whose variance is less than the epsilon of a norm, which XLA adds as a float32 number."""
BELOW_AND_ABOVE = (-2.0, -0.5, -0.01, 1.0, 3.0)
ROWS, COLUMNS = (Shard(0),), (Shard(1),)


def of(
    function: str,
    shape: tuple[int, ...],
    *arguments: Argument,
    values: tuple[float, ...] | None = None,
    **options: Argument,
) -> Operator:
    """A call of a function of torch.nn.functional, or of torch where the name says so."""
    call = function if function.startswith("torch.") else f"torch.nn.functional.{function}"
    return a_call(call, {"input": Operand(shape=shape, values=values)}, INPUT, *arguments, options=options)


def whole(operator: Operator) -> Case:
    return a_program(operator)


def cut(operator: Operator, placements: Placements) -> Case:
    return a_program(operator, sharded={"0.input": placements})


def size(*sizes: int) -> Items:
    return Items(sizes, kind="tuple")


def elu(name: str, *later: str, **options: float) -> Case:
    """A program that begins with a function like `elu`."""
    first = of(name, (5,), values=BELOW_AND_ABOVE, **options)
    return a_program(first, *(a_call(f"torch.{one}", {}, Reference("0.output")) for one in later))


CASES = {
    "variance_cancelled": (
        "xla_spmd",
        replace(
            a_program(of("torch.native_layer_norm", (1, 4), size(4), None, None, 1e-5, values=SMALL)),
            dtype="float64",
        ),
    ),
    "rounded_near_one": (
        "xla_spmd",
        a_program(
            a_call(
                "torch.nn.functional.binary_cross_entropy",
                {
                    "input": Operand(shape=(4,), values=(1e-5, 2e-6, 3e-5, 1e-6)),
                    "target": Operand(shape=(4,), values=(0.0,) * 4, gradient=False),
                },
            )
        ),
    ),
    "input_for_result/elu": ("xla_spmd", elu("elu", alpha=2.0)),
    "input_for_result/celu": ("xla_spmd", elu("celu", alpha=0.5)),
    "input_for_result/selu before sin": ("xla_spmd", elu("selu", "sin")),
    "passed_at_a_bound": ("xla_spmd", whole(of("hardtanh", (4,), values=(-1.0, 0.5, 1.0, 2.0)))),
    "another_divisor": (
        "xla_spmd",
        whole(of("avg_pool2d", (1, 4, 4), 2, 1, 1, count_include_pad=False, divisor_override=3)),
    ),
    "mean_of_means": ("torch_dtensor", cut(of("torch.mean", (3, 4)), ROWS)),
    "mean_of_means/l1_loss": (
        "torch_dtensor",
        a_program(
            a_call(
                "torch.nn.functional.l1_loss",
                {"input": Operand(shape=(3, 4)), "target": Operand(shape=(3, 4), gradient=False)},
            ),
            sharded={"0.input": ROWS, "0.target": ROWS},
        ),
    ),
    "lost_epsilon": ("torch_dtensor", cut(of("rms_norm", (3, 4), size(4), eps=0.5), COLUMNS)),
}


def shown(backend: str, case: Case) -> Divergence:
    """What a real run shows first."""
    actual = sandbox.run(case, backend, deadline=SECONDS)
    side = plugins.load("workers.backends", backend).SIDE
    divergences = compare(case, backend, side, oracle_trace(case), actual).divergences
    assert divergences, "the fault is not there"
    return divergences[0]


@pytest.mark.parametrize("name", CASES)
def test_a_known_fault_of_a_real_program_is_predicted_and_known(name: str) -> None:
    backend, case = CASES[name]
    first = shown(backend, case)
    assert name.partition("/")[0] in first.predicted, first.detail
    entry = read_ledger().entry(first, case, utc_today())
    assert entry
    assert entry.predicts == name.partition("/")[0]


@pytest.mark.parametrize("zeros", [(-0.0,) * 4, (0.0, -0.0, -0.0, -0.0)])
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("placements", [COLUMNS, (Replicate(),)])
def test_a_layer_norm_gives_zeros_the_other_sign_however_it_is_placed(
    placements: Placements, zeros: tuple[float, ...], *, native: bool
) -> None:
    name, more = ("torch.native_layer_norm", (None, None, 0.5)) if native else ("layer_norm", ())
    norm = of(name, (1, 4), size(4), *more, values=zeros)
    case = replace(a_program(norm, mesh=(("tp", 2),), sharded={"0.input": placements}), data=ZEROS)
    first = shown("xla_spmd", case)
    assert first.check == "zero_signs"
    entry = read_ledger().entry(first, case, utc_today())
    assert entry
    assert entry.upstream.endswith("zeros_of_layer_norm_on_xla.py")
