"""What torch infers is asked once for all ranks of a run, and is what each would be told alone."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.distributed.device_mesh import init_device_mesh  # noqa: E402  after the check for torch
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor  # noqa: E402
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta  # noqa: E402
from torch.distributed.tensor._op_schema import OpSchema  # noqa: E402

from difftest.cases.layout import Mesh  # noqa: E402
from workers.torch import joining  # noqa: E402
from workers.torch.inferred_shapes import FILE, InferredShapes, inferred_once  # noqa: E402

pytestmark = pytest.mark.slow

aten = torch.ops.aten
META = TensorMeta(torch.Size([4, 6]), (6, 1), torch.float32)


@pytest.fixture(scope="module", autouse=True)
def mesh(tmp_path_factory: pytest.TempPathFactory) -> object:
    folder = tmp_path_factory.mktemp("group")
    place = joining.RankPlace(0, Mesh((("dp", 1),)), torch.device("cpu"), "gloo")
    yield joining.join(place, f"file://{folder / 'rendezvous'}", {})
    joining.leave()


def schema(mesh: Any, operator: Any, *operands: object, placement: Any = None) -> OpSchema:  # noqa: ANN401
    """An operator of operands, of which each `TensorMeta` is a DTensor's."""
    placements = (placement or Replicate(),)
    args = (
        DTensorSpec(mesh, placements, tensor_meta=one) if isinstance(one, TensorMeta) else one
        for one in operands
    )
    return OpSchema(operator, tuple(args), {})


def counted(answer: object) -> tuple[Callable[[], object], list[int]]:
    calls: list[int] = []

    def infer() -> object:
        calls.append(1)
        return answer

    return infer, calls


@pytest.mark.parametrize("answer", [META, (META, None), [META, META], (), None])
def test_another_process_is_given_the_answer_and_infers_nothing(
    tmp_path: Path, mesh: object, answer: object
) -> None:
    one, other = (InferredShapes(tmp_path / FILE) for _ in range(2))
    asked = schema(mesh, aten.mm.default, META, META)
    infer, calls = counted(answer)
    assert one.of(asked, infer) == answer
    given = other.of(asked, infer)
    assert given == answer
    assert type(given) is type(answer)
    assert len(calls) == 1


def test_the_placement_of_an_operand_makes_no_other_question_and_all_else_does(
    tmp_path: Path, mesh: object
) -> None:
    answers = InferredShapes(tmp_path / FILE)
    infer, calls = counted(META)
    answers.of(schema(mesh, aten.add.Tensor, META, 1), infer)
    answers.of(schema(mesh, aten.add.Tensor, META, 1, placement=Shard(0)), infer)
    assert len(calls) == 1
    strides, dtype = META._replace(stride=(1, 4)), META._replace(dtype=torch.float64)
    others = [
        schema(mesh, aten.sub.Tensor, META, 1),
        schema(mesh, aten.add.Tensor, META, 1.0),
        schema(mesh, aten.add.Tensor, META, True),  # noqa: FBT003  an operand
        schema(mesh, aten.add.Tensor, META, "1"),
        schema(mesh, aten.add.Tensor, META, [1]),
        schema(mesh, aten.add.Tensor, META, torch.float32),
        schema(mesh, aten.add.Tensor, META, "torch.float32"),
        schema(mesh, aten.add.Tensor, strides, 1),
        schema(mesh, aten.add.Tensor, dtype, 1),
        OpSchema(aten.add.Tensor, schema(mesh, aten.add.Tensor, META, 1).args_schema, {"alpha": 2}),
    ]
    for one in others:
        answers.of(one, infer)
    assert len(calls) == 1 + len(others)


def test_what_cannot_be_written_down_is_inferred_every_time(tmp_path: Path, mesh: object) -> None:
    answers = InferredShapes(tmp_path / FILE)
    infer, calls = counted(META)
    for _ in range(2):
        answers.of(schema(mesh, aten.add.Tensor, META, torch.ones(1)), infer)
    assert len(calls) == 2


def test_an_error_is_not_kept_and_the_next_one_may_ask(tmp_path: Path, mesh: object) -> None:
    one, other = (InferredShapes(tmp_path / FILE) for _ in range(2))
    asked = schema(mesh, aten.mm.default, META, META)

    def fails() -> object:
        msg = "cannot be multiplied"
        raise RuntimeError(msg)

    for answers in (one, other):
        with pytest.raises(RuntimeError, match="cannot be multiplied"):
            answers.of(asked, fails)
    assert other.of(asked, lambda: META) == META


def test_a_process_that_dies_while_it_infers_keeps_nobody_waiting(tmp_path: Path, mesh: object) -> None:
    asked = schema(mesh, aten.mm.default, META, META)
    if (child := os.fork()) == 0:
        InferredShapes(tmp_path / FILE).of(asked, lambda: os._exit(0))
    os.waitpid(child, 0)
    assert InferredShapes(tmp_path / FILE).of(asked, lambda: META) == META


def test_dtensor_is_given_what_another_rank_inferred(tmp_path: Path) -> None:
    mesh = init_device_mesh("cpu", (1,))
    whole = torch.randn(4, 6, dtype=torch.float64)
    operand = distribute_tensor(whole, mesh, [Replicate()])
    with inferred_once(f"file://{tmp_path / 'rendezvous'}"):
        product = operand @ operand.T
    lines = (tmp_path / FILE).read_bytes().splitlines()
    assert any(b"aten.mm.default" in line for line in lines)
    assert isinstance(product, DTensor)
    torch.testing.assert_close(product.to_local(), whole @ whole.T)
    DTensor._op_dispatcher.sharding_propagator._propagate_tensor_meta.cache_clear()  # noqa: SLF001
    with inferred_once("tcp://elsewhere:1"):
        operand @ operand.T
    assert (tmp_path / FILE).read_bytes().splitlines() == lines
