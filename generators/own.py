"""Cases of a module of the user's: what is drawn beside it, by the paths that take any model or by its plan.

Case i of a seed is the same wherever it is drawn, as in `generators.cases`: bytes hashed from the seed and
the index go through Hypothesis. There is no choice among candidates.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, cast

import msgspec
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from difftest.cases.case import Case, Data, DType, Training
from difftest.cases.case_number import CaseNumber
from difftest.cases.described import Description
from difftest.cases.feature import has, typed
from difftest.cases.features import frozen, unfreezing
from difftest.cases.layers.own import Own
from difftest.cases.layout import Layout, Mesh, Replicate
from difftest.cases.model import Model
from difftest.cases.options import Feature, Replication, Spelling
from difftest.ground import plugins
from difftest.ground.errors import UsageError
from generators import training
from generators.cases import case_bytes, case_seed, with_what_the_path_draws
from generators.chances import drawn_from, equally, sometimes, weighted
from generators.options import replications, starts
from generators.paths import load

PLANNED = "plan"
"""The path of cases whose layout is that of the user's plan."""

AXES = (
    ("dp",),
    ("dp_shard",),
    ("tp",),
    ("dp_replicate", "dp_shard"),
    ("dp", "tp"),
    ("dp_shard", "tp"),
    ("dp_replicate", "dp_shard", "tp"),
)
"""The axes of the meshes for which a plan is asked."""

MOST_DRAWS = 1000
"""How often a case is drawn anew that the module or its optimizer cannot run; most can."""

ROWS_OF_A_BATCH = 2
"""The least of a batch of a rank's own, and what their number is a multiple of: statistics need several."""

LEARNING_RATE = 2.0**-7
"""Of Adam, for modules of unknown scale: its updates do not depend on the size of the gradients."""

NARROWING = ("autocast", "mixed_precision")
"""The features that compute in bfloat16."""

IN_PLACE_OF_AN_OPTIMIZER = (
    *("capturable", "local_steps", "muon", "optimizer", "parameter_groups", "schedule"),
    *("sharded_optimizer", "tensor_rate"),
)
"""The features that make the optimizer, or set its learning rate; a user's own has neither from the case."""

BY_STATE_DICT = ("distributed_checkpoint", "moved_checkpoint", "state_dict_options")
"""The features that look up parameters in what an optimizer's `state_dict` gives."""

STATES = "states"
"""The path all of whose cases have one of them."""

Decode: TypeAlias = Callable[[bytes], list[Case]]


def meshes(max_world_size: int) -> tuple[Mesh, ...]:
    """The meshes of 2 to `max_world_size` ranks for which a plan is asked; of 1 where that is the most."""
    least = min(2, max_world_size)
    sizes = range(least, max_world_size + 1)
    strategies = (
        Mesh(tuple(zip(axes, shape, strict=True)))
        for axes in AXES
        for shape in itertools.product(sizes, repeat=len(axes))
        if least <= functools.reduce(int.__mul__, shape) <= max_world_size
    )
    return tuple(strategies)


def fitting_paths() -> tuple[str, ...]:
    """The paths that fit any model."""
    return tuple(name for name in plugins.names("generators.paths") if load(name).TAKES_ANY_MODEL)


def paths() -> tuple[str, ...]:
    """Those of a campaign that names none."""
    return tuple(name for name in fitting_paths() if load(name).DEFAULT)


def case_at(
    description: Description,
    seed: int,
    number: CaseNumber | int,
    *,
    wanted: Iterable[str] | None = None,
    max_world_size: int,
) -> Case:
    """The case of `seed` with a number, as in `generators.cases.case_at`.

    Successive cases cover the `wanted` paths, by default the default ones that take any model. The further
    inputs of a case differ in the seed alone.

    `UsageError` for a path that takes generated models only, or that draws nothing which this model can do.
    """
    at = number if isinstance(number, CaseNumber) else CaseNumber.of(number)
    names = chosen(description, wanted)
    path = names[at.index % len(names)]
    decode = _decoder(msgspec.json.encode(description), path, max_world_size)
    tried = (decode(case_bytes(seed, at.index, 0, attempt)) for attempt in range(MOST_DRAWS))
    case = next((drawn[0] for drawn in tried if drawn), None)
    if case is None:
        msg = f"path {path}: none of {MOST_DRAWS} cases is one that {description.layer.source} can run"
        raise UsageError(msg)
    return msgspec.structs.replace(case, seed=case_seed(seed, at.recorded))


def chosen(description: Description, wanted: Iterable[str] | None = None) -> tuple[str, ...]:
    """The paths called so, sorted; by default the default ones that fit any model, or the plan.

    `UsageError` for a path that takes generated models only.
    """
    if description.layouts is not None:
        return (PLANNED,)
    allowed = fitting_paths()
    names = tuple(wanted or paths())
    for name in names:
        if name not in allowed:
            msg = f"path {name!r} has models of its own; a model of yours can take {', '.join(allowed)}"
            raise UsageError(msg)
        if name == STATES and not description.optimizer_saved:
            msg = (
                f"path {name!r} loads states of optimizers; what your optimizer's state_dict() gives has "
                "no 'state' and 'param_groups', as those of torch.optim have"
            )
            raise UsageError(msg)
        if description.learnable and name not in paths():
            allowed = paths()
            msg = f"path {name!r} has no task to learn; with --convergence allowed: {', '.join(allowed)}"
            raise UsageError(msg)
    return tuple(sorted({*names}))


@functools.cache
def _decoder(text: bytes, path: str, max_world_size: int) -> Decode:
    """The function that turns bytes into a case of a description, which is given as JSON."""
    description, drawn = msgspec.json.decode(text, type=Description), list[Case]()

    @settings(database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(own_cases(description=description, path=path, max_world_size=max_world_size))
    def collect(case: Case) -> None:
        drawn.append(case)

    def decode(data: bytes) -> list[Case]:
        drawn.clear()
        cast("Any", collect).hypothesis.fuzz_one_input(data)
        return drawn

    return decode


@st.composite
def own_cases(draw: st.DrawFn, *, description: Description, path: str, max_world_size: int) -> Case:
    """Cases of one description on one path."""
    model = Model(layers=(description.layer,))
    layout = _possible(description.layer, draw(_layouts(description, model, path, max_world_size)))
    # Half of the cases in which rows influence each other are what wrappers compute: a batch a rank
    possible = not description.layer.rowwise and description.layer.parts_run and layout.data_ranks > 1
    apart = possible and draw(st.booleans())
    model = Model(layers=(msgspec.structs.replace(description.layer, by_rank=apart),))
    dtypes = _dtypes(description)
    dtype = draw(weighted(*((6 if name == "float32" else 2, name) for name in dtypes)))
    trained = _training(draw, description, dtype)
    rows = draw(
        training.batch_rows(
            parts=tuple(size for name, size in layout.mesh.axes if name in layout.batch_axes),
            most=training.MOST_ROWS // trained.accumulation,
        )
    )
    if apart:
        rows = ROWS_OF_A_BATCH * layout.data_ranks * math.ceil(rows / (ROWS_OF_A_BATCH * layout.data_ranks))
    case = Case(
        path=path,
        model=model,
        layout=layout,
        training=trained,
        data=Data(batch=rows * trained.accumulation, learnable=description.learnable),
        dtype=dtype,
        replication=_replication(draw, description, layout, trained.accumulation),
        start=draw(starts(accumulation=1)),  # a scan needs the shape of the outputs
        spelling=_spelling(draw, description),
    )
    if path == PLANNED or load(path).DEFAULT:
        return msgspec.structs.replace(case, features=_frozen(draw, case))
    case = draw(with_what_the_path_draws(case=case))
    assume(_can_run(case, description))
    return case


def _can_run(case: Case, description: Description) -> bool:
    """Whether what a path has drawn is something that the module and its optimizer can do."""
    parts = case.training.accumulation == 1 or description.layer.rowwise
    narrow = "bfloat16" in description.dtypes or not has(case, *NARROWING)
    made_here = has(case, *IN_PLACE_OF_AN_OPTIMIZER) or any(
        options.arguments() for options in typed(case.training_features)
    )
    saved = description.optimizer_saved or not has(case, *BY_STATE_DICT)
    return parts and narrow and saved and not (description.optimizer and made_here)


def _frozen(draw: st.DrawFn, case: Case) -> tuple[Feature, ...] | msgspec.UnsetType:
    """In some cases a parameter is not trained: in no step, or where it is sharded not in the first ones."""
    kinds = {"frozen": frozen.Options.drawn(case), "unfreezing": unfreezing.Options.drawn(case)}
    possible = [(name, choices) for name, choices in kinds.items() if choices]
    if case.data.learnable or not possible or not draw(sometimes(one_in=5)):
        return msgspec.UNSET
    name, choices = draw(equally(*possible))
    return (Feature(name=name, options=draw(drawn_from(choices))),)


@st.composite
def _layouts(
    draw: st.DrawFn, description: Description, model: Model, path: str, max_world_size: int
) -> Layout:
    if description.layouts is not None:
        return draw(equally(*description.layouts))
    places = load(path)
    return draw(places.layouts(model=model, mesh=draw(places.meshes(max_world_size=max_world_size))))


def _possible(layer: Own, layout: Layout) -> Layout:
    """The layout, in which numbers without a dim and buffers are whole."""
    scalars = {f"0.{name}" for name, shape in layer.parameters.items() if not shape}
    whole = (Replicate(),) * len(layout.mesh.axes)
    placed = {name: whole if name in scalars else at for name, at in layout.parameters.items()}
    placed |= {f"0.{name}": whole for name in layer.buffers()}
    return msgspec.structs.replace(layout, parameters=placed)


def _dtypes(description: Description) -> tuple[DType, ...]:
    """Those in which the module runs; to learn with Adam, not float16, where its epsilon of 1e-8 is 0."""
    if not description.learnable or description.optimizer:
        return description.dtypes
    return tuple(name for name in description.dtypes if name != "float16")


def _training(draw: st.DrawFn, description: Description, dtype: Any) -> Training:  # noqa: ANN401  of `DType`
    """Parts of a batch only where their losses add up to that of the batch; few steps by default."""
    if description.optimizer:
        options: dict[str, Any] = {"optimizer": "own"}
    elif description.learnable:
        options = {"optimizer": draw(equally("adam", "adamw")), "learning_rate": LEARNING_RATE}
    else:
        optimizer = draw(training.optimizers(dtype=dtype))
        rates = training.learning_rates(optimizer=optimizer, regime="normal", loss="mse")
        options = {"optimizer": optimizer, "learning_rate": draw(rates)}
    return Training(
        **options,
        steps=description.steps
        or min(description.most_steps, draw(training.step_counts(dtype=dtype, regime="normal"))),
        accumulation=draw(weighted((5, 1), (2, 2), (1, 3))) if description.layer.rowwise else 1,
        clip_norm=draw(weighted((4, None), (1, 1.0), (1, 0.25))),
        loss=description.loss,
    )


def _spelling(draw: st.DrawFn, description: Description) -> Spelling | msgspec.UnsetType:
    """Half of the cases are plain DTensors, unless the module mixes tensors of its own with them."""
    if description.layer.mixes_tensors or not draw(st.booleans()):
        return msgspec.UNSET
    return Spelling(no_implicit_replication=True)


def _replication(draw: st.DrawFn, description: Description, layout: Layout, accumulation: int) -> Replication:
    """The options of replicas; where a parameter gets no gradient, DDP must look for it."""
    options = draw(replications(layout=layout, accumulation=accumulation))
    if not description.unused:
        return options
    return msgspec.structs.replace(options, find_unused_parameters=True, static_graph=False)
