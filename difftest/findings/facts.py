"""The facts that a ledger's entry may name: of a case in `where`, and of a divergence in `what`, as words."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from difftest.cases import evenness
from difftest.cases.case import Case
from difftest.cases.evenness import uneven_cuts
from difftest.cases.layers import walk
from difftest.cases.layers.module import function_called
from difftest.cases.layers.operator import Items, Named, Operator, Reference
from difftest.cases.layout import Partial, Placements, Shard
from difftest.cases.options import Feature, field_resets
from difftest.cases.pipelining import AXIS, OPTIONS, SPLIT
from difftest.judge.divergence import Divergence
from difftest.judge.facts import FailureFacts, KindsFacts, NumbersFacts, PropertyFacts, RemarkFacts

MATRIX = 2
"""How many dims a matrix has."""

SHOWN_FACTS = (
    *("step", "stage", "tensor", "kind", "message"),
    *("differing", "greatest", "noise", "count", "property", "actual", "expected", "remark"),
)


def shown_facts(shown: Divergence) -> Mapping[str, str]:
    """Those of the `SHOWN_FACTS` that a divergence has.

    Of a failure these are the exception's type or the signal, and the message. Of wrong numbers `differing`
    is as `3 / 12`, and `greatest` and `noise`, the error in units of the rounding noise, are as people read
    them. Values of another kind have `count`, `actual` and `expected`, as do a `property` such as the dtype.
    What else a check says is a `remark`.
    """
    place = {"step": str(shown.step), "stage": str(shown.stage), "tensor": shown.tensor}
    match shown.facts:
        case FailureFacts(kind=kind, message=message):
            return place | {"kind": kind, "message": message}
        case NumbersFacts(differing=differing, elements=elements, greatest=greatest):
            noise = f"{shown.ratio or 0.0:.3g}"
            return place | {
                "differing": f"{differing} / {elements}",
                "greatest": f"{greatest:.4g}",
                "noise": noise,
            }
        case KindsFacts(count=count, actual=actual, expected=expected):
            return place | {"count": str(count), "actual": actual, "expected": expected}
        case PropertyFacts(property=name, actual=actual, expected=expected):
            return place | {"property": name, "actual": actual, "expected": expected}
        case RemarkFacts(remark=remark):
            return place | {"remark": remark}
        case None:
            return place


def facts(case: Case) -> Mapping[str, str]:
    """The `FACTS` of a case."""
    return {name: fact(case) for name, fact in FACTS.items()}


FACTS: Mapping[str, Callable[[Case], str]] = {
    "path": lambda case: case.path,
    "mesh": lambda case: str(case.layout.mesh),
    "dtype": lambda case: case.dtype,
    "optimizer": lambda case: case.training.optimizer,
    "loss": lambda case: case.training.loss,
    "regime": lambda case: case.data.regime,
    # The layers' kinds, separated by a space, and their own notable features, sorted, each with a semicolon
    "layers": lambda case: " ".join(_kinds(case)),
    "layer_options": lambda case: "".join(f"{option}; " for option in sorted(_of_layers(case))),
    "clipping": lambda case: "off" if case.training.clip_norm is None else "on",
    # How parts are accumulated
    "accumulation": lambda case: case.start.accumulation if case.training.accumulation > 1 else "none",
    "cuts": lambda case: "uneven" if uneven_cuts(case) else "even",
    # The rows of a part, however they are placed
    "rows": lambda case: "uneven" if any(case.part_rows % n for n in case.layout.mesh.shape) else "even",
    "bucket_view": lambda case: "on" if case.replication.gradient_as_bucket_view else "off",
    # Those of convolutions
    "kernels": lambda case: "cut" if any(Shard(2) in kernel for kernel in _kernels(case)) else "whole",
    # Whether the model has a single parameter, or a single buffer, as an attention's mask is
    "lone_tensor": lambda case: "yes" if 1 in {_buffers(case), len(case.layout.parameters)} else "no",
    # Whether a matrix of the model has one row, as the weight of a layer with one output
    "one_row": lambda case: (
        "yes" if any(_is_row(shape) for shape in case.model.parameters().values()) else "no"
    ),
    # The usual forms of the case's spelling, separated by a space
    "forms": lambda case: " ".join(
        name for name in case.forms.__struct_fields__ if getattr(case.forms, name)
    ),
    # Features of training and their options (`optimizer.kind=asgd`), each between spaces, as in what follows
    "features": lambda case: _spaced(word for feature in case.training_features for word in _words(feature)),
    "wrapping": lambda case: _spaced(_wrapping(case)),
    # `empty` where a rank holds nothing of a tensor, else `whole`, `even` or `uneven`
    "shards": evenness.of_case,
    # What makes the values of operands of which every rank holds a share
    "reductions": lambda case: _spaced(
        one.reduction for at in case.layout.parameters.values() for one in at if isinstance(one, Partial)
    ),
    # A module stands as the function that it calls
    "program": lambda case: _spaced(function_called(one.title) for one in case.model.operators.values()),
    "options": lambda case: _spaced(_options(case.model.operators.values())),
    # Whether a layer has the weight of another
    "tied": lambda case: "yes" if any(layer.borrows() for _, layer in walk(case.model.layers)) else "no",
    # What an SPMD program does before it enables SPMD
    "before_spmd": lambda case: _spaced(case.start.acts[: case.start.acts.index("spmd")]),
}
"""What an entry may ask of a case, in words."""


def _spaced(words: Iterable[str]) -> str:
    return "".join(f" {word} " for word in words)


def _kernels(case: Case) -> list[Placements]:
    parameters = case.layout.parameters
    return [parameters[f"{path}.{name}"] for path, layer in walk(case.model.layers) for name in layer.KERNELS]


def _is_row(shape: Sequence[int]) -> bool:
    return len(shape) == MATRIX and shape[0] == 1


def _buffers(case: Case) -> int:
    return sum(layer.BUFFERS + len(layer.buffers()) for _, layer in walk(case.model.layers))


def _wrapping(case: Case) -> Iterator[str]:
    """What wrappers are told that is not at its default, as `sharding.synced=every`."""
    for part, options in case.wrapping.items():
        yield from (f"{part}.{name}" for name, _ in field_resets(options))
    if pipeline := case.staged:
        yield from (f"pipeline.{name}={getattr(pipeline, name)}" for name in OPTIONS)
        if pipeline.schedule in SPLIT:
            yield "pipeline.split"
        if pipeline.microbatches < case.layout.mesh.size(AXIS):
            yield "pipeline.microbatches=few"
        if case.part_rows % (pipeline.microbatches * case.layout.data_ranks):
            yield "pipeline.microbatches=uneven"


def _kinds(case: Case) -> list[str]:
    """The kinds of the layers in order.

    Those of a user's model are the classes of the modules that have parameters of their own, embeddings
    first, as these are given the input.
    """
    if not (own := case.model.own):
        return [type(layer).__name__ for _, layer in walk(case.model.layers)]
    having = dict.fromkeys(name.rpartition(".")[0] for name in (*own.parameters, *own.tied))
    kinds = [own.modules[path] for path in having if path in own.modules]
    return sorted(kinds, key=lambda kind: not kind.startswith("Embedding"))


def _of_layers(case: Case) -> set[str]:
    return {feature for _, layer in walk(case.model.layers) for feature in layer.features()}


def _words(feature: Feature) -> Iterator[str]:
    """The name of a feature, and its options as `name.option=value`."""
    yield feature.name
    yield from (f"{feature.name}.{option}={value}" for option, value in feature.options.items())


def _options(operators: Iterable[Operator]) -> Iterator[str]:
    """The named arguments, of a module's class too, that are neither tensors nor lists, as `name=value`.

    Of what JSON lacks stands the text (`p=inf`).
    """
    for operator in operators:
        for name, value in operator.named_arguments.items():
            if not isinstance(value, Items | Reference):
                yield f"{name}={value.text if isinstance(value, Named) else value}"
