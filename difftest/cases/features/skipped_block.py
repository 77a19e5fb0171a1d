"""A block that only the last of some forward passes uses."""

from typing import ClassVar

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled, has
from difftest.cases.schema import Size, TensorName
from difftest.cases.script_values import python


class Options(FeatureOptions, frozen=True):
    """The block, and of how many forward passes each the last uses it."""

    PATHS: ClassVar[tuple[str, ...]] = ("wrappers",)

    block: TensorName
    parts: Size

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Several parts of a batch, the last of which uses it; FSDP alone need not find what is unused.

        Not where a block is computed again, or where forward passes are traced once or are more than those.
        """
        blocks = tuple(
            str(i) for i, layer in enumerate(case.model.layers) if layer.held is not None and i > 0
        )
        more = has(case, "evaluation", "gradient_scaler") or case.start.accumulation == "scan"
        sharded = "dp_shard" in case.layout.mesh.names
        parts = case.training.accumulation
        if not blocks or more or not sharded or parts == 1 or case.training.checkpointing:
            return None
        return {"block": blocks, "parts": (parts,)}

    def spelled(self, _training: Training) -> Spelled:
        """In the others it is the identity."""
        return Spelled(
            built=(
                "passes = []",
                f"block = model.get_submodule({python(self.block)})",
                "",
                "def skipping(x, forward=block.forward):",
                "    passes.append(None)",
                f"    return forward(x) if len(passes) % {python(self.parts)} == 0 else x",
                "",
                "block.forward = skipping",
            )
        )
