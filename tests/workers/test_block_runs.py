"""Building blocks in real processes: they are built as declared, agree, and a wrong buffer is found."""

from unittest import mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quiet_draws import quietly
from real_runs import agrees, oracle_trace

from difftest.cases import block as blocks
from difftest.cases.blocks import names
from difftest.cases.case import Case
from difftest.cases.layers.building_block import BuildingBlock
from difftest.cases.options import Start
from difftest.findings.ledger import read_ledger
from difftest.ground.clock import utc_today
from difftest.judge.comparator import compare
from generators.cases import case_at
from generators.chances import drawn_from
from workers.isolate import sandbox

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch", reason="needs torch: pip install 'difftest[xla]'")

from workers import faults  # noqa: E402
from workers.own import loops  # noqa: E402
from workers.training.blocks import Sizes, linear_recurrence, module_of, recurrent  # noqa: E402

SEQUENCE = 8
OF_TORCH = {"LSTM": torch.nn.modules.rnn.LSTM, "GRU": torch.nn.modules.rnn.GRU}
"""Where a test of the same process has imported torch_xla, `torch.nn.GRU` runs on XLA's tensors alone."""


@pytest.mark.parametrize("name", names())
@quietly(25)
@given(data=st.data())
def test_a_module_has_the_tensors_and_the_shapes_that_its_block_declares(
    name: str, data: st.DataObject
) -> None:
    layer = blocks.layer(name, data.draw(drawn_from(blocks.arguments_of(name).drawn(2))))
    sequence = SEQUENCE if layer.positions else 0
    compiled = mock.patch.object(linear_recurrence, "_higher_order_ops", loops)
    with mock.patch.object(recurrent, "CELLS", OF_TORCH), compiled:
        module = module_of(name, layer.arguments, Sizes(sequence=sequence, rounded=torch.float32))
        assert {n: tuple(p.shape) for n, p in module.named_parameters()} == dict(layer.parameters)
        assert {n: tuple(b.shape) for n, b in module.named_buffers()} == dict(layer.held_buffers)
        assert {n for n, b in module.named_buffers() if not b.is_floating_point()} == set(layer.counters)
        lead = (3, sequence) if sequence else (3,)
        module = module.double()
        ids = torch.zeros(lead, dtype=torch.int64)
        fed = ids if layer.vocabulary else torch.rand(*lead, layer.inputs).double()
        assert tuple(module(fed).shape) == (*lead, layer.outputs)


def drawn(block: str, axis: str, **arguments: str) -> Case:
    """The first generated case of a block with these arguments on two ranks of one axis, in float32.

    It is not clipped, and has no usual form or start, in which the ledger knows faults, whatever the model.
    """
    for index in range(400):
        case = case_at(7, index, paths=("blocks",), max_world_size=2)
        held = [layer for layer in case.model.layers if isinstance(layer, BuildingBlock)]
        fits = all(one.block == block and arguments.items() <= one.arguments.items() for one in held)
        if held and fits and case.layout.mesh.axes == ((axis, 2),) and case.dtype == "float32":
            training = msgspec.structs.replace(case.training, clip_norm=None)
            return msgspec.structs.replace(case, training=training, spelling=msgspec.UNSET, start=Start())
    pytest.fail(f"no case of {block} on {axis}")


@pytest.mark.parametrize(
    ("block", "axis", "backend"),
    [
        ("rope", "dp", "torch_ddp"),
        ("rope", "dp", "xla_spmd"),
        ("swiglu", "tp", "torch_dtensor"),
        ("swiglu", "tp", "xla_spmd"),
        ("swiglu", "dp_shard", "torch_fsdp"),
    ],
)
def test_a_block_agrees(block: str, axis: str, backend: str) -> None:
    case = drawn(block, axis)
    assert agrees(case, backend, sandbox.run(case, backend)), case


@pytest.mark.parametrize("backend", ["torch_ddp", "xla_spmd"])
def test_a_wrong_buffer_is_found_by_the_check_of_buffers_alone(backend: str) -> None:
    case = drawn("rope", "dp")
    outcome = sandbox.run(case, backend, options={faults.VARIABLE: "buffer_grows"})
    shown = compare(case, backend, "any", oracle_trace(case), outcome).divergences
    assert {divergence.check for divergence in shown} == {"buffers"}


def test_the_gradient_that_scan_loses_is_found_and_known() -> None:
    case = drawn("linear_recurrence", "dp", function="scan")
    shown = compare(
        case, "torch_ddp", "torch", oracle_trace(case), sandbox.run(case, "torch_ddp")
    ).divergences
    entry = read_ledger().entry(shown[0], case, utc_today())
    assert entry
    assert entry.upstream.endswith("scan_gradient.py")
