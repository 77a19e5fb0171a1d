"""Collectives that gradients go through: sums are right, and the greatest of ranks is the known fault."""

import msgspec
import pytest
from installed_packages import needs
from real_runs import agrees, oracle_trace
from sharded_cases import a_sharded_case

from difftest.cases.case import Case, Training
from difftest.cases.layers.collective import Collective
from difftest.cases.layers.linear import Linear
from difftest.cases.layout import Mesh
from difftest.cases.model import Model
from difftest.findings.ledger import read_ledger
from difftest.ground.clock import utc_today
from difftest.judge.comparator import compare
from workers.backends.xla_replica import unsupported
from workers.isolate import sandbox

pytestmark = pytest.mark.slow
needs("torch", reason="needs torch: pip install 'difftest[xla]'")

PAIR = Mesh((("dp", 2),))


def through(**fields: object) -> Case:
    between = Collective(mesh=PAIR.shape, **{"learned": "nn", "width": 4, **fields})  # type: ignore[arg-type]
    last = Linear(inputs=between.outputs, outputs=2)
    model = Model(layers=(Linear(inputs=3, outputs=between.width), between, last))
    return a_sharded_case(PAIR, model=model, training=Training(steps=1))


@pytest.mark.parametrize(
    "operation",
    ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "scatter"],
)
def test_gradients_of_sums_and_moves_are_those_of_one_device(operation: str) -> None:
    case = through(operation=operation)
    outcome = sandbox.run(case, "torch_ddp")
    assert agrees(case, "torch_ddp", outcome), outcome


@pytest.mark.parametrize("learned", ["nn", "functional"])
def test_uneven_parts_of_one_tensor_come_back_as_on_one_device(learned: str) -> None:
    case = through(operation="all_to_all", learned=learned, parts="uneven", width=6)
    assert agrees(case, "torch_ddp", sandbox.run(case, "torch_ddp"))


@pytest.mark.parametrize(
    "fields",
    [
        {"operation": "all_to_all", "form": "list", "parts": "uneven", "width": 6},
        {"operation": "all_reduce", "learned": "functional", "form": "list"},
        {"operation": "all_reduce", "learned": "functional"},
    ],
    ids=["a list of uneven parts", "coalesced", "functional"],
)
def test_what_the_path_of_listed_collectives_adds_is_known_to_fail(fields: dict[str, object]) -> None:
    case = msgspec.structs.replace(through(**fields), path="listed_collectives")
    outcome = sandbox.run(case, "torch_ddp")
    first = compare(case, "torch_ddp", "torch", oracle_trace(case), outcome).divergences[0]
    assert read_ledger().entry(first, case, utc_today()), first.detail


@pytest.mark.parametrize("operation", ["all_gather", "all_to_all", "reduce_scatter"])
def test_no_gradient_goes_through_functional_collectives_by_plain_names_which_is_known(
    operation: str,
) -> None:
    case = msgspec.structs.replace(through(operation=operation, learned="plain"), path="learned_collectives")
    outcome = sandbox.run(case, "torch_ddp")
    first = compare(case, "torch_ddp", "torch", oracle_trace(case), outcome).divergences[0]
    assert read_ledger().entry(first, case, utc_today()), first.detail


def test_the_gradient_of_a_mean_is_that_of_one_device_where_every_rank_has_it() -> None:
    case = through(operation="all_reduce", reduction="avg")
    assert agrees(case, "torch_ddp", sandbox.run(case, "torch_ddp"))


def test_the_gradient_of_a_mean_that_one_rank_has_is_wrong_which_is_known() -> None:
    case = msgspec.structs.replace(through(operation="reduce", reduction="avg"), path="learned_collectives")
    outcome = sandbox.run(case, "torch_ddp")
    first = compare(case, "torch_ddp", "torch", oracle_trace(case), outcome).divergences[0]
    assert first.check == "gradients"
    assert read_ledger().entry(first, case, utc_today())


def test_a_gradient_with_strides_that_goes_back_through_gather_is_wrong_which_is_known() -> None:
    case = msgspec.structs.replace(through(operation="gather"), path="learned_collectives")
    outcome = sandbox.run(case, "torch_ddp")
    first = compare(case, "torch_ddp", "torch", oracle_trace(case), outcome).divergences[0]
    assert first.check == "gradients"
    assert read_ledger().entry(first, case, utc_today())


def test_the_gradient_of_the_greatest_over_ranks_is_wrong_which_is_known() -> None:
    case = through(operation="all_reduce", reduction="max")
    case = msgspec.structs.replace(case, path="learned_collectives")
    outcome = sandbox.run(case, "torch_ddp")
    first = compare(case, "torch_ddp", "torch", oracle_trace(case), outcome).divergences[0]
    assert first.check == "gradients"
    assert read_ledger().entry(first, case, utc_today())


def test_torch_xlas_functions_do_not_reduce_the_gradient_of_a_sum_over_replicas_which_is_known() -> None:
    pytest.importorskip("torch_xla", reason="needs torch_xla: pip install 'difftest[xla]'")
    case = msgspec.structs.replace(through(operation="all_reduce"), path="learned_collectives")
    outcome = sandbox.run(case, "xla_replica")
    first = compare(case, "xla_replica", "xla", oracle_trace(case), outcome).divergences[0]
    assert first.check == "gradients"
    assert read_ledger().entry(first, case, utc_today())
    assert unsupported(through(operation="all_gather"))
