"""Batch normalization over rows, in training or in evaluation, with running statistics."""

from difftest.cases.block import BlockArguments, Choices, Declared
from difftest.cases.schema import Share, Size
from difftest.cases.sizes import widths


class Arguments(BlockArguments, frozen=True):
    """`affine`: it has a scale and a shift; `train`: it is in training."""

    width: Size
    momentum: Share
    affine: bool
    train: bool

    @classmethod
    def drawn(cls, unit: int) -> Choices:
        """Always with a momentum: without one torch's module reads its counter on the host in every step."""
        return {
            "width": widths(unit),
            "momentum": (0.125, 0.5),
            "affine": (True, True, True, False),
            "train": (True, True, True, False),
        }

    def declared(self) -> Declared:
        """Scale and shift, and three buffers; in training rows influence each other."""
        affine = {"norm.weight": (self.width,), "norm.bias": (self.width,)} if self.affine else {}
        running = {"norm.running_mean": (self.width,), "norm.running_var": (self.width,)}
        return Declared(
            parameters=affine,
            inputs=self.width,
            outputs=self.width,
            held_buffers={**running, "norm.num_batches_tracked": ()},
            counters=("norm.num_batches_tracked",),
            rowwise=not self.train,
        )
