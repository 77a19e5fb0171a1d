"""Layer kinds: one file in each of three packages, no table over kinds elsewhere, and what a kind refuses."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rooms import ROOT, source_files
from samples import a_case

from difftest.cases.case import Case, Data, Training
from difftest.cases.layer import Layer
from difftest.cases.layers import KINDS
from difftest.cases.layers.collective import Collective
from difftest.cases.layers.dropout import Dropout
from difftest.cases.layers.flash_attention import FlashAttention
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.redistribute import Redistribute
from difftest.cases.layout import Layout, Mesh, Shard, replicated
from difftest.cases.model import Model
from difftest.cases.numbers import batch
from difftest.cases.options import Replication, Start
from difftest.ground import plugins

FLASH = FlashAttention(width=16, heads=2, head_dim=128, length=256, keys=128, bias=True)
MESH = Mesh((("dp_replicate", 2), ("dp_shard", 2)))


def with_layers(*layers: Layer, rows: int = 8, **options: Any) -> Case:  # noqa: ANN401  options of a case
    model = Model(
        layers=layers, sequence=256 if any(isinstance(layer, FlashAttention) for layer in layers) else 0
    )
    parameters = dict.fromkeys(model.parameters(), replicated(MESH))
    layout = Layout(mesh=MESH, batch=(Shard(0), Shard(0)), parameters=parameters)
    return Case(
        path="data_parallel",
        model=model,
        layout=layout,
        training=Training(),
        data=Data(batch=rows),
        **options,
    )


def test_flash_attention_has_projections_to_its_heads_and_a_bias_for_every_pair_of_positions() -> None:
    assert FLASH.shapes() == {
        "q.weight": (256, 16),
        "k.weight": (256, 16),
        "v.weight": (256, 16),
        "o.weight": (16, 256),
        "ab": (2, 256, 128),
    }


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (msgspec.structs.replace(FLASH, keys=512), r"keys 512; allowed: 1 to its length 256"),
        (msgspec.structs.replace(FLASH, scale=-1.0), r"scale -1.0; allowed: above 0"),
        (msgspec.structs.replace(FLASH, length=128, keys=128), r"length 128; the model's sequence is 256"),
        (Dropout(width=16, share=0.95), r"share 0.95; allowed: 0 to 0.9"),
    ],
)
def test_a_layer_that_contradicts_itself_or_its_model_is_refused(layer: Layer, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Model(layers=(Linear(inputs=3, outputs=16), layer, FLASH), sequence=256)


@pytest.mark.parametrize(
    ("operation", "outputs"),
    [
        ("all_reduce", 4),
        ("all_gather", 8),
        ("reduce_scatter", 2),
        ("all_to_all", 4),
        ("permute", 4),
        ("broadcast", 4),
    ],
)
def test_a_collective_changes_the_width_alone(operation: str, outputs: int) -> None:
    layer = Collective(operation=operation, width=4, mesh=(2, 2), axis=1)  # type: ignore[arg-type]
    case = with_layers(layer, Linear(inputs=outputs, outputs=3))
    assert case.model.inputs == 4
    assert case.unsharded().model == case.model


@pytest.mark.parametrize(
    ("layer", "rows", "message"),
    [
        (
            Collective(operation="permute", width=4, mesh=(4,)),
            8,
            r"collective over the mesh \(4,\); the mesh \(2, 2\) must be that",
        ),
        (Collective(operation="permute", width=4, mesh=(2, 2)), 6, r"cut 6 rows evenly"),
        (Redistribute(width=4, dims=(0,)), 8, r"redistributes over 1 mesh axes; the mesh has 2"),
    ],
)
def test_a_layer_with_another_mesh_is_refused(layer: Layer, rows: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        with_layers(layer, Linear(inputs=4, outputs=3), rows=rows)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (
            Collective(operation="reduce_scatter", width=5, mesh=(2,)),
            r"width 5; reduce_scatter over 2 ranks needs a multiple",
        ),
        (
            Collective(operation="permute", width=5, mesh=(2,), form="list"),
            r"width 5; a list is of two halves",
        ),
        (Collective(operation="permute", width=4, mesh=(2,), axis=1), r"axis 1 of a mesh \(2,\)"),
        (Collective(operation="gather", width=4, mesh=(2,)), r"gather by sum; gather and avg need `learned`"),
        (
            Collective(operation="all_reduce", width=4, mesh=(2,), reduction="avg"),
            r"all_reduce by avg; gather",
        ),
        (
            Collective(operation="gather", width=4, mesh=(2,), learned="functional"),
            r"gather learned by functional; allowed: all_gather, reduce_scatter, all_to_all",
        ),
        (
            Collective(operation="permute", width=4, mesh=(2,), learned="nn"),
            r"permute learned by nn; allowed",
        ),
    ],
)
def test_an_invalid_collective_is_refused(layer: Collective, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Model(layers=(layer, Linear(inputs=layer.width, outputs=3)))


def test_a_dropout_mask_comes_from_the_host_keeps_the_mean_and_changes_every_step() -> None:
    case = with_layers(Linear(inputs=3, outputs=32), Dropout(width=32, share=0.25), rows=64)
    first, second = (batch(case, step).extras["mask 1"] for step in (0, 1))
    assert first.shape == (64, 32)
    assert set(first.ravel().tolist()) == {0.0, float.fromhex("0x1.555556p+0")}  # 4/3 in float32
    assert 0.9 < first.mean() < 1.1
    assert (first != second).any()
    assert batch(case, 0).rows(slice(0, 8)).extras["mask 1"].shape == (8, 32)


def test_invalid_options_of_start_and_replication_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"acts are spmd, spmd; allowed: spmd, mesh, device, seed in any order, each once"
    ):
        Start(acts=("spmd", "spmd"))
    with pytest.raises(ValueError, match=r"bucket_cap_mb is 0; allowed: above 0, to 64"):
        Replication(bucket_cap_mb=0)
    with pytest.raises(ValueError, match=r"static_graph and find_unused_parameters are both set"):
        Replication(static_graph=True, find_unused_parameters=True)


def test_a_case_of_schema_1_is_read_with_the_defaults_of_that_time() -> None:
    case = a_case()
    older = msgspec.json.decode(case.to_json()) | {"schema": 1}
    del older["replication"], older["start"], older["training"]["checkpointing"]
    assert Case.from_json(msgspec.json.encode(older)) == msgspec.structs.replace(case, schema=1)


DECLARATIONS = {
    "difftest.cases.layers": {"class"},
    "workers.training.layers": {"module"},
    "generators.layers": {"BLOCKS", "placements"},
}
"""Each package's declarations of a kind: a class tagged with the kind's name, or top-level names."""

ABOUT_ONE_KIND = {
    "difftest/cases/model.py": {"FlashAttention", "Operator", "Own"},  # others get these from a model
    "reports/reproducer/blocks.py": {"BuildingBlock"},
    "reports/reproducer/program.py": {"Module"},
    "difftest/cases/routed.py": {"RoutedExperts"},
    "generators/options.py": {"Collective", "Dropout", "Redistribute"},  # forms of a factor, a mask, a move
    "generators/paths/learned_collectives.py": {"Collective"},
    "reports/reproducer/refusal.py": {"Collective"},  # no script has gradients through one
    "reports/reproducer/spelling.py": {"Residual"},  # a block that is applied several times
    "generators/models.py": {"Residual"},  # the same
    "generators/paths/states.py": {"Conv"},  # no checkpoint of its layout
    "difftest/cases/features/own_function.py": {"Linear"},  # which calls the function
    "difftest/cases/features/added_in_place.py": {"Linear", "Residual"},  # what is added to what
    "difftest/cases/features/changed_in_place.py": {"Linear"},  # whose result is changed
    "difftest/cases/gathered.py": {"Embedding"},  # which FSDP2 may leave gathered
    "generators/paths/flash_attention.py": {"FlashAttention"},
    "generators/paths/context_parallel.py": {"FlashAttention"},  # without what a ring of kernels lacks
    "workers/backends/_context.py": {"FlashAttention"},  # where pieces of a sequence meet
    "reports/reproducer/script.py": {
        "Attention",
        "Collective",
        "Redistribute",
        "RoutedExperts",
    },  # templates define classes for them
    "workers/backends/torch_experts.py": {"RoutedExperts"},
    "workers/faults/experts.py": {"RoutedExperts"},
    "workers/xla/pinning.py": {"Collective"},  # operations that replicas lack, or that pin layouts
    "difftest/cases/features/retried.py": {"Linear"},  # a layer whose passes fail
    "workers/backends/torchax.py": {"Collective", "Redistribute"},  # operators that it lacks
    "difftest/cases/block.py": {"BuildingBlock"},
    "workers/faults/recurrences.py": {"BuildingBlock"},
    "difftest/cases/parts.py": {"BuildingBlock"},
    "difftest/cases/resets.py": {"Collective", "Residual", "RMSNorm"},  # strides, how often, the epsilon
    "difftest/judge/predictions/_calls.py": {"Module"},  # a call's class has arguments, too
    "workers/faults/attention.py": {"Attention"},
    "workers/faults/collectives.py": {"Collective"},
    "workers/tpu/limits.py": {"Collective"},  # sends, which hang in the place of a TPU
    "workers/faults/passes.py": {"Linear"},
    "difftest/judge/predictions/_outputs.py": {"BuildingBlock", "Linear"},  # what they compute
    "difftest/judge/predictions/another_mean_square.py": {"Linear", "RMSNorm"},  # what is behind the norm
    "difftest/judge/predictions/biased_variance.py": {"BuildingBlock"},  # its own momentum
    "generators/paths/regions.py": {"Linear"},  # its head
    **{
        file: {"Operator"}  # programs consist of operators
        for file in (
            "difftest/reduce/simplifications/programs.py",
            "workers/faults/operator_semantics.py",
            "workers/references/operators/__init__.py",
            "workers/training/program_hooks.py",
        )
    },
}
"""Files that distinguish one kind from all others, because they are about that kind alone.

Elsewhere a declaration answers.
"""


def kinds() -> tuple[str, ...]:
    """Every kind that has a file in any of the three packages."""
    return tuple(sorted({name for package in DECLARATIONS for name in plugins.names(package)}))


def lacks(kind: str) -> Iterator[str]:
    """The files that a kind lacks, and the declarations that its files lack.

    Files are read without importing them, because the workers' import torch.
    """
    for package, declarations in DECLARATIONS.items():
        file = ROOT.joinpath(*package.split("."), f"{kind}.py")
        if package == "workers.training.layers" and kind in KINDS and "of_torch" in vars(KINDS[kind]):
            assert not file.is_file(), f"{kind} is a module of torch, which needs no file"
            continue
        if not file.is_file():
            yield f"file {file.relative_to(ROOT)}"
            continue
        for declaration in sorted(declarations - set(declared(file))):
            yield f"{declaration} in {file.relative_to(ROOT)}"


def declared(file: Path) -> Iterator[str]:
    """The names of a file's top-level functions and variables, and `class` for a class of its kind.

    Such a class has the file's name for a tag.
    """
    for node in ast.parse(file.read_text()).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield name
            case ast.ClassDef(keywords=keywords):
                tags = {
                    k.value.value for k in keywords if k.arg == "tag" and isinstance(k.value, ast.Constant)
                }
                if file.stem in tags:
                    yield "class"


def test_a_kind_has_its_file_and_declarations_in_each_package() -> None:
    assert {kind: lacking for kind in kinds() if (lacking := list(lacks(kind)))} == {}


def test_missing_files_of_a_kind_are_named() -> None:
    assert list(lacks("nowhere")) == [
        "file difftest/cases/layers/nowhere.py",
        "file workers/training/layers/nowhere.py",
        "file generators/layers/nowhere.py",
    ]


def test_every_kind_is_decoded_by_its_tag() -> None:
    assert tuple(KINDS) == kinds()
    assert {kind: layer.__struct_config__.tag for kind, layer in KINDS.items()} == {
        kind: kind for kind in KINDS
    }


SPELLED = {"of_torch", "spelled", "held"}


def test_every_kind_but_a_container_is_spelled_in_scripts() -> None:
    layers = {
        kind: layer for kind, layer in KINDS.items() if kind != "building_block" and not layer.READS_RESULTS
    }  # programs have scripts
    unspelled = [kind for kind, layer in layers.items() if not SPELLED & set(vars(layer))]
    assert not unspelled, "these files of difftest/cases/layers lack `spelled` and `of_torch`"


def distinguished(tree: ast.Module) -> set[str]:
    """The kinds that code distinguishes: uses of their classes except to make one and in annotations.

    So an `isinstance`, a pattern, a comparison of types and a table by class count; a constructor does not.
    """
    classes = {layer.__name__ for layer in KINDS.values()}
    local: dict[str, str] = {}
    modules: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("difftest.cases.layers"):
            local |= {alias.asname or alias.name: alias.name for alias in node.names if alias.name in classes}
            modules |= {alias.asname or alias.name for alias in node.names if alias.name in KINDS}
    harmless = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        annotations = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        harmless |= {id(part) for part in annotations if part for part in ast.walk(part)}
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) if name in local and id(node) not in harmless:
                names.add(local[name])
            case ast.Attribute(attr=name, value=ast.Name(id=module)) if (
                module in modules and id(node) not in harmless
            ):
                names.add(name)
            case ast.Compare(
                left=ast.Attribute(attr="kind"), comparators=[ast.Constant(value=str(name))]
            ) if name in KINDS:
                names.add(KINDS[name].__name__)
    return names


@pytest.mark.long
def test_only_code_about_one_kind_distinguishes_it_from_the_others() -> None:
    outside: dict[str, set[str]] = {}
    for file in source_files():
        if ".".join(file.parent.relative_to(ROOT).parts) not in DECLARATIONS:
            names = distinguished(ast.parse(file.read_text()))
            outside |= {str(file.relative_to(ROOT)): names} if names else {}
    assert outside == ABOUT_ONE_KIND


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("isinstance(layer, Linear)", {"Linear"}),
        ("isinstance(layer, Linear | Conv)", {"Linear", "Conv"}),
        ("TABLE = {Linear: 1}", {"Linear"}),
        ("type(layer) is Conv", {"Conv"}),
        ("match layer:\n    case Conv(): pass", {"Conv"}),
        ("isinstance(layer, conv.Conv)", {"Conv"}),
        ("layer.kind == 'linear'", {"Linear"}),
        ("def make(layer: Linear) -> Conv:\n    return Conv(inputs=1, outputs=1)", set()),
    ],
)
def test_the_test_would_detect_a_table_over_kinds(code: str, names: set[str]) -> None:
    imports = (
        "from difftest.cases.layers.linear import Linear\n"
        "from difftest.cases.layers.conv import Conv\n"
        "from difftest.cases.layers import conv\n"
    )
    assert distinguished(ast.parse(imports + code)) == names
