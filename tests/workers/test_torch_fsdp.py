"""FSDP2's backend: the dim along which a parameter is cut."""

from samples import a_case

from difftest.cases.case import Case
from difftest.cases.layers.linear import Linear
from difftest.cases.layout import Replicate, Shard
from workers.backends.torch_fsdp import dim


def cut(*axes: str) -> Case:
    """A case whose weight is cut along its columns over the last of the axes."""
    placements = ((Replicate(),) * (len(axes) - 1)) + (Shard(1),)
    layers = (Linear(inputs=4, outputs=6, bias=False),)
    return a_case(layers, mesh=tuple((axis, 2) for axis in axes), sharded={"0.weight": placements})


def test_a_parameter_is_cut_along_the_dim_of_the_axis_that_fully_shard_has_whatever_its_name() -> None:
    assert dim(cut("tp"), "0.weight", "tp") == 1
    assert dim(cut("dp_replicate", "dp_shard"), "0.weight", "dp_shard") == 1
    assert dim(cut("dp_replicate", "dp_shard"), "0.weight", "dp_replicate") == 0


def test_a_weight_whose_tie_a_move_broke_is_cut_along_its_first_dim() -> None:
    """torch_tpu gives the module another parameter than the layout has."""
    assert dim(cut("tp"), "2.weight", "tp") == 0
