"""What a divergence of a reference is about: the optimizer, the loss or the kind of layer.

All findings of references are on one path, so that without it a wrong optimizer and another would be one.
"""

from difftest.cases.case import Case
from difftest.cases.layers import walk
from difftest.cases.twins import is_twin
from difftest.judge.divergence import Divergence
from difftest.judge.stage import Stage


def subject(case: Case, divergence: Divergence) -> str:
    """In words; empty for what is no twin, and for an output, which all layers have a part in.

    A program's divergence names its operator already.
    """
    if not is_twin(case) or case.model.is_program:
        return ""
    if divergence.stage is Stage.UPDATE:
        options = [f"{feature.name}{_kind(feature.options)}" for feature in case.training_features]
        return " with ".join([case.training.optimizer, *([", ".join(sorted(options))] if options else [])])
    if divergence.stage is Stage.BACKWARD:
        path, _, own = divergence.tensor.rpartition(".")
        owners = dict(walk(case.model.layers))
        while path and path not in owners:
            path, _, inner = path.rpartition(".")
            own = f"{inner}.{own}"
        return f"{owners[path].title}.{own}" if path in owners else ""
    return ""


def _kind(options: object) -> str:
    """The kind that a feature's options name, such as an optimizer's."""
    kind = options.get("kind") if isinstance(options, dict) else None
    return f" {kind}" if kind else ""
