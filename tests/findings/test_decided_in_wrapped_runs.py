"""Faults of `wrappers`, `regions` and `collective_layouts` are known by the option that decides them."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from in_part import in_part
from installed_packages import needs
from msgspec.structs import replace
from samples import a_case
from sharded_cases import S0, R, a_sharded_case

from difftest.cases.case import Case, Training
from difftest.cases.layers.collective import Collective
from difftest.cases.layers.embedding import Embedding
from difftest.cases.layers.layer_norm import LayerNorm
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.redistribute import Redistribute
from difftest.cases.layers.rms_norm import RMSNorm
from difftest.cases.layout import Mesh, Placements, Shard
from difftest.cases.model import Model
from difftest.cases.options import Feature, FeatureOption, Spelling
from difftest.cases.resets import EPSILON, STRIDES
from difftest.cases.wrapping import LossForm, Regions, Sharding
from difftest.findings.faults import known
from difftest.findings.ledger import Ledger, entries

pytestmark = pytest.mark.slow
needs("torch", reason="needs torch: pip install 'difftest[xla]'")

from decided import assert_known_by_its_option  # noqa: E402

SHARD = Mesh((("dp_shard", 2),))
LEAVING = Redistribute(width=4, dims=(None,), by="to_local")
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
    case = a_sharded_case(SHARD, (S0,), {"": (S0,)}, model=model, training=Training(steps=2))
    return replace(case, features=(Feature(name="kept_state_dict"),))


def in_parts(mesh: Mesh, placed: Placements, name: str, **options: FeatureOption) -> Case:
    """Two parts of a batch, with a feature."""
    case = a_sharded_case(mesh, (S0,), {"": placed}, training=Training(steps=1, accumulation=2))
    return replace(case, features=(Feature(name=name, options=options),))


def wrapped_apart(*further: tuple[str, int]) -> Case:
    """An embedding and the layer that has its weight; over `further` axes of the mesh nothing is cut."""
    layers = (Embedding(vocabulary=6, width=4), Linear(inputs=4, outputs=6, tied=True))
    training = Training(steps=1, loss="cross_entropy")
    model = Model(layers=layers, sequence=2)
    placed: Placements = (S0, *(R for _ in further))
    case = a_sharded_case(Mesh((*SHARD.axes, *further)), placed, {"": placed}, model=model, training=training)
    return replace(case, sharding=Sharding(wrapped="ties"))


def summed() -> Case:
    """A partial sum that leaves a DTensor."""
    layers = (Linear(inputs=6, outputs=8), Linear(inputs=8, outputs=4, bias=False), LEAVING)
    model = Model(layers=(*layers, Linear(inputs=4, outputs=3)))
    cut: dict[str, Placements] = {"0.weight": (S0,), "0.bias": (S0,), "1.weight": (Shard(1),)}
    case = a_sharded_case(Mesh((("tp", 2),)), (R,), cut, model=model, training=Training(steps=1))
    return replace(case, spelling=Spelling(bare_to_local=True))


def uneven() -> Case:
    """Five rows that two ranks share."""
    model = Model(layers=(Linear(inputs=6, outputs=4), LEAVING, Linear(inputs=4, outputs=3)))
    case = a_sharded_case(Mesh((("dp", 2),)), (S0,), model=model, rows=5, training=Training(steps=1))
    return replace(case, spelling=Spelling(local_map=True))


def behind_a_norm() -> Case:
    """Columns that are cut, and a norm over them."""
    layers = (
        Linear(inputs=12, outputs=24, bias=False),
        RMSNorm(width=24),
        Linear(inputs=24, outputs=4, bias=False),
    )
    return a_sharded_case(SHARD, (S0,), {"": (S0,)}, model=Model(layers=layers), rows=14)


CASES = {
    "strides_of_tensors_over_gloo": ("torch_ddp", strided(), STRIDES),
    "loss_parallel_of_images": ("torch_tp", of_classes("images"), "regions.loss=images"),
    "log_softmax_in_loss_parallel": ("torch_tp", of_classes("log_softmax"), "regions.loss=log_softmax"),
    "state_dict_of_uneven_shards": ("torch_fsdp", kept(), "feature.kept_state_dict"),
    "adafactor_on_dtensor": (
        "torch_fsdp",
        in_parts(SHARD, (S0,), "optimizer", kind="adafactor", form="loop", rate=2.0**-7),
        "feature.optimizer",
    ),
    "ddp_of_two_backward_passes": (
        "torch_ddp",
        in_parts(Mesh((("dp", 2),)), (R,), "forwards_first", backward="each"),
        "feature.forwards_first",
    ),
    "tie_broken_by_fully_shard": ("torch_fsdp", wrapped_apart(), "sharding.wrapped=ties"),
    "to_local_of_a_partial_sum": ("torch_dtensor", summed(), "spelling.bare_to_local=True"),
    "local_map_of_uneven_pieces": ("torch_dtensor", uneven(), "spelling.local_map=True"),
    "state_dict_before_first_step": ("torch_ddp", saved_first(), "feature.distributed_checkpoint"),
    "rms_norm_drops_epsilon": ("torch_dtensor", behind_a_norm(), EPSILON),
}


@pytest.mark.parametrize("name", in_part(CASES, 3))
def test_a_fault_of_these_paths_is_known_once_the_evidence_names_its_option(
    name: str, tmp_path: Path
) -> None:
    backend, case, option = CASES[name]
    (fault,) = (one for one in known() if one.name == name)
    assert_known_by_its_option(case, (backend,), Ledger(entries=entries(fault)), option, tmp_path)


def test_a_broken_tie_is_known_over_tensor_parallelism_too(tmp_path: Path) -> None:
    (fault,) = (one for one in known() if one.name == "tie_broken_by_fully_shard")
    case, option = wrapped_apart(("tp", 2)), "sharding.wrapped=ties"
    assert_known_by_its_option(case, ("torch_tp",), Ledger(entries=entries(fault)), option, tmp_path)
