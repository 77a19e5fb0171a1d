"""What a case is made of that is no operator: building blocks, features and options of training, by name."""

from collections.abc import Iterator, Mapping

from difftest.cases.case import Case
from difftest.cases.layers import walk
from difftest.cases.layers.building_block import BuildingBlock
from difftest.cases.options import field_resets

BLOCKS, FEATURES, OPTIONS = "blocks", "features", "options"
KINDS = (BLOCKS, FEATURES, OPTIONS)


def parts(case: Case) -> Mapping[str, tuple[str, ...]]:
    """The names by kind, sorted; only kinds of which the case has something.

    Options are those of its training that are not at their defaults, those of a feature that are words, the
    axes of a mesh of several, and what a collective is like. None names a parameter.
    """
    names = (
        (layer.block for _, layer in walk(case.model.layers) if isinstance(layer, BuildingBlock)),
        (feature.name for feature in case.training_features),
        _options(case),
    )
    by_kind = {kind: tuple(sorted({*own})) for kind, own in zip(KINDS, names, strict=True)}
    return {kind: own for kind, own in by_kind.items() if own}


def _options(case: Case) -> Iterator[str]:
    training = case.training
    if case.model.is_program:
        return
    if training.optimizer != "sgd":
        yield f"optimizer {training.optimizer}"
    if training.accumulation > 1:
        yield "accumulation"
    if training.clip_norm is not None:
        yield "clip_norm"
    if training.checkpointing:
        yield "checkpointing"
    yield from _of_parallelism(case)
    for feature in case.training_features:
        for name, value in feature.options.items():
            if isinstance(value, str) and value not in case.model.parameters():
                yield f"{feature.name} {name} {value}"


def _of_parallelism(case: Case) -> Iterator[str]:
    if len(case.layout.mesh.axes) > 1:
        yield f"mesh {' x '.join(case.layout.mesh.names)}"
    wrapped = {**case.wrapping, "replication": case.replication, "spelling": case.forms}
    for part, options in wrapped.items():
        for name, _ in field_resets(options):
            what, _, value = name.partition("=")
            yield f"{part} {what if value in case.model.parameters() else name}"
    if pipeline := case.staged:
        yield f"pipeline {pipeline.schedule}"
        yield from (f"pipeline {name}" for name, _ in pipeline.settings() if not name.startswith("schedule"))
    for layer in case.model.layers:
        if layer.BETWEEN_RANKS:
            yield from (f"collective {feature}" for feature in layer.features())
