"""The facts that a ledger's entry may name: of a case in `where`, and of a divergence in `what`, as words."""

from collections.abc import Iterable, Iterator, Mapping

from difftest.cases import evenness
from difftest.cases.case import Case
from difftest.cases.evenness import uneven_cuts
from difftest.cases.layers import walk
from difftest.cases.layers.module import function_called
from difftest.cases.layers.operator import Items, Named, Operator, Reference
from difftest.cases.layout import Shard
from difftest.cases.options import Feature, field_resets
from difftest.cases.pipelining import AXIS
from difftest.judge.divergence import Divergence
from difftest.judge.facts import FailureFacts, KindsFacts, NumbersFacts, PropertyFacts, RemarkFacts

FACTS = (
    "path",
    "mesh",
    "dtype",
    "optimizer",
    "loss",
    "regime",
    "layers",
    "layer_options",
    "clipping",
    "accumulation",
    "cuts",
    "rows",
    "kernels",
    "bucket_view",
    "lone_tensor",
    "forms",
    "features",
    "shards",
    "program",
    "options",
    "tied",
    "before_spmd",
    "wrapping",
)


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
    """The `FACTS` of a case.

    `layers` are the layers' kinds (`_kinds`), separated by a space. `layer_options` are the layers' own
    notable features, sorted, each with a semicolon behind it. `accumulation` is how parts are accumulated,
    `loop` or `scan`, and `none` where there is one. `clipping` and `bucket_view` (DDP's) are `on` or `off`,
    `cuts` are `even` or `uneven`, as are `rows` (of a part, however placed), `kernels` of convolutions are
    `whole` or `cut`. `lone_tensor` is `yes` where the model has a single parameter, or a single buffer, as an
    attention's mask is. `forms` are the usual forms of the case's spelling, separated by a space. `features`
    are its features of training and their options (`optimizer.kind=asgd`), each between spaces, as are
    `wrapping`, what wrappers are told (`sharding.synced=every`), and `before_spmd`, what an SPMD program does
    before it enables SPMD. `shards` are `whole`, `even`, `uneven` or, where a rank holds nothing of a tensor,
    `empty`. `program` are a program's operators, and `options` their named arguments (`dim=0`), each between
    spaces; of what JSON lacks stands the text (`p=inf`), and none is a list. A module stands as the function
    that it calls, with the named arguments of its class. `tied` is `yes` where a layer has the weight of
    another.
    """
    parameters, layers = case.layout.parameters, list(walk(case.model.layers))
    kernels = [parameters[f"{path}.{name}"] for path, layer in layers for name in layer.KERNELS]
    buffers = sum(layer.BUFFERS + len(layer.buffers()) for _, layer in layers)
    return {
        "path": case.path,
        "mesh": str(case.layout.mesh),
        "dtype": case.dtype,
        "optimizer": case.training.optimizer,
        "loss": case.training.loss,
        "regime": case.data.regime,
        "layers": " ".join(_kinds(case)),
        "layer_options": "".join(f"{option}; " for option in sorted(_of_layers(case))),
        "clipping": "off" if case.training.clip_norm is None else "on",
        "accumulation": case.start.accumulation if case.training.accumulation > 1 else "none",
        "cuts": "uneven" if uneven_cuts(case) else "even",
        "rows": "uneven" if any(case.part_rows % ranks for ranks in case.layout.mesh.shape) else "even",
        "bucket_view": "on" if case.replication.gradient_as_bucket_view else "off",
        "kernels": "cut" if any(Shard(2) in placements for placements in kernels) else "whole",
        "lone_tensor": "yes" if 1 in {buffers, len(parameters)} else "no",
        "forms": " ".join(name for name in case.forms.__struct_fields__ if getattr(case.forms, name)),
        "features": "".join(f" {word} " for feature in case.training_features for word in _words(feature)),
        "wrapping": "".join(f" {one} " for one in _wrapping(case)),
        "shards": evenness.of_case(case),
        "program": "".join(f" {function_called(one.title)} " for one in case.model.operators.values()),
        "options": "".join(f" {option} " for option in _options(case.model.operators.values())),
        "tied": "yes" if any(layer.borrows() for _, layer in layers) else "no",
        "before_spmd": "".join(f" {act} " for act in case.start.acts[: case.start.acts.index("spmd")]),
    }


PIPELINED = ("schedule", "hands", "scaled", "evaluated")
"""The options of a pipeline that entries of the ledger name."""


def _wrapping(case: Case) -> Iterator[str]:
    """What wrappers are told that is not at its default, as `sharding.synced=every`."""
    for part, options in case.wrapping.items():
        yield from (f"{part}.{name}" for name, _ in field_resets(options))
    if pipeline := case.staged:
        yield from (f"pipeline.{name}={getattr(pipeline, name)}" for name in PIPELINED)
        if pipeline.microbatches < case.layout.mesh.size(AXIS):
            yield "pipeline.microbatches=few"


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
    """The named arguments, of a module's class too, that are neither tensors nor lists, as `name=value`."""
    for operator in operators:
        for name, value in operator.named_arguments.items():
            if not isinstance(value, Items | Reference):
                yield f"{name}={value.text if isinstance(value, Named) else value}"
