"""Faults of `wrappers`, `regions` and `collective_layouts` are known by the option that decides them."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from installed_packages import needs
from msgspec.structs import replace
from samples import a_case
from sharded_cases import S0, R, a_sharded_case

from difftest.cases.case import Case, Training
from difftest.cases.layers.collective import Collective
from difftest.cases.layers.layer_norm import LayerNorm
from difftest.cases.layers.linear import Linear
from difftest.cases.layout import Mesh, Placements
from difftest.cases.model import Model
from difftest.cases.options import Feature
from difftest.cases.resets import STRIDES
from difftest.cases.wrapping import LossForm, Regions
from difftest.findings.faults import known
from difftest.findings.ledger import Ledger, entries

pytestmark = pytest.mark.slow
needs("torch", reason="needs torch: pip install 'difftest[xla]'")

from decided import assert_known_by_its_option  # noqa: E402

HEAD: Mapping[str, Placements] = {"1.weight": (S0,), "1.bias": (S0,)}
NORMED = Model(layers=(LayerNorm(width=8), Linear(inputs=8, outputs=6)), sequence=4)


def strided() -> Case:
    layer = Collective(operation="all_reduce", width=4, mesh=(2,), memory="strided")
    model = Model(layers=(layer, Linear(inputs=4, outputs=3)))
    return a_sharded_case(Mesh((("dp", 2),)), (S0,), model=model, training=Training())


def of_classes(loss: LossForm) -> Case:
    training = Training(loss="cross_entropy")
    case = a_sharded_case(Mesh((("tp", 2),)), (R,), dict(HEAD), model=NORMED, training=training)
    return replace(case, regions=Regions(loss=loss))


def saved_first() -> Case:
    case = a_case(training=Training(optimizer="adam"))
    saved = Feature(name="distributed_checkpoint", options={"resharded": False, "step": 0})
    return replace(case, features=(saved,))


def kept() -> Case:
    """A state dict that is taken once, of shards that two ranks have unevenly."""
    model = Model(layers=(Linear(inputs=8, outputs=7), Linear(inputs=7, outputs=5)))
    shards: dict[str, Placements] = {"": (S0,)}
    case = a_sharded_case(Mesh((("dp_shard", 2),)), (S0,), shards, model=model, training=Training(steps=2))
    return replace(case, features=(Feature(name="kept_state_dict"),))


CASES = {
    "strides_of_tensors_over_gloo": ("torch_ddp", strided(), STRIDES),
    "loss_parallel_of_images": ("torch_tp", of_classes("images"), "regions.loss=images"),
    "log_softmax_in_loss_parallel": ("torch_tp", of_classes("log_softmax"), "regions.loss=log_softmax"),
    "state_dict_of_uneven_shards": ("torch_fsdp", kept(), "feature.kept_state_dict"),
    "state_dict_before_first_step": ("torch_ddp", saved_first(), "feature.distributed_checkpoint"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_fault_of_these_paths_is_known_once_the_evidence_names_its_option(
    name: str, tmp_path: Path
) -> None:
    backend, case, option = CASES[name]
    (fault,) = (one for one in known() if one.name == name)
    assert_known_by_its_option(case, (backend,), Ledger(entries=entries(fault)), option, tmp_path)
