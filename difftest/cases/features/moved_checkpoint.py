"""A checkpoint that another program loads, with the same model in another layout, and saves again."""

from typing import ClassVar, Literal

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, has
from difftest.cases.layers import walk
from difftest.cases.schema import Step

STATELESS = ("sgd", "momentum")
"""The optimizers that may be saved before the first step: a state that counts is made by a step then."""

LOADS = (
    "averaged_weights",
    "distributed_checkpoint",
    "kept_state_dict",
    "save_and_load",
    "state_dict_options",
)
CHANGES = (
    *("frozen", "muon", "optimizer", "parameter_groups", "schedule", "sharded_optimizer"),
    "unfreezing",
)
"""Features that load a state, and those that change what state there is."""


BY_FSDP = ("sharded", "hybrid")
"""The layouts that `fully_shard` makes."""


class Options(FeatureOptions, frozen=True):
    """The step before which that is, the layout in between, the format of the files, and the dtype in them.

    Layouts: every rank has all (`whole`), pieces of the last dim on one mesh axis (`columns`), pieces of both
    on two (`grid`), `fully_shard` over one axis (`sharded`) or over the second of two (`hybrid`). Formats:
    torch's own `files`; of the module `safetensors`, a file of each rank, or `consolidated` ones.
    """

    PATHS: ClassVar[tuple[str, ...]] = ("states",)

    step: Step
    layout: Literal["whole", "columns", "grid", "sharded", "hybrid"]
    files: Literal["files", "safetensors", "consolidated"]
    wide: bool

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Before any step, of several ranks; not beside what loads or changes a state.

        Safetensors refuse tensors that share memory, as tied weights do, and `fully_shard` numbers without a
        dim.
        """
        least = 0 if case.training.optimizer in STATELESS else 1
        if case.world_size == 1 or least >= case.training.steps or has(case, *LOADS, *CHANGES):
            return None
        even = case.world_size % 2 == 0
        scalars = not all(case.model.parameters().values())
        tied = any(layer.borrows() for _, layer in walk(case.model.layers))
        return {
            "step": range(least, case.training.steps),
            "layout": tuple(
                name
                for name in ("whole", "columns", "sharded", *(("grid", "hybrid") if even else ()))
                if not (scalars and name in BY_FSDP)
            ),
            "files": ("files",) if tied else ("files", "files", "safetensors", "consolidated"),
            "wide": (False, False, True),
        }

    def spelled(self, _training: Training) -> None:
        """No script has one yet."""
