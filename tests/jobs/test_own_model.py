"""Cases of a user's module: what a case holds of it, how cases are drawn, and which sources are refused."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from own_models import SHAPES, documented, own_case, own_description, own_layer, written
from pages import FRONT

from difftest import cli
from difftest.campaign.localise import called, place
from difftest.cases import numbers
from difftest.cases.case import Case
from difftest.cases.feature import has, typed
from difftest.cases.gathered import gathered_alone
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.own import Buffer
from difftest.cases.layout import Layout, Mesh, Placements, Replicate, Shard
from difftest.cases.model import Model
from difftest.cases.wrapping import Sharding
from difftest.ground import sources
from difftest.ground.errors import UsageError
from difftest.jobs.ask.capacity import check_runnable, is_runnable
from difftest.jobs.ask.request import CampaignRequest
from difftest.jobs.campaign.generated_cases import define, generated_cases
from difftest.judge.stage import Stage
from difftest.records import own_cases
from difftest.records.case_files import read_case
from difftest.records.resume import CampaignRecord
from difftest.reduce.measure import measure
from difftest.reduce.simplifications.layers import fewer_features
from difftest.reduce.simplifications.training import plainer_optimizer, squared_error
from generators import own
from generators.cases import case_at
from workers import backends
from workers.backends import torch_tp

WRAPPERS = ("torch_ddp", "xla_ddp", "xla_replica")

WHAT_A_PATH_DRAWS = {
    "features": {"schedule", "optimizer"},
    "replicated": {"communication_hook", "local_steps"},
    "states": {"moved_checkpoint", "state_dict_options"},
    "wrappers": {"mixed_precision", "unfreezing"},
}
"""Some of the features of each path."""


def test_a_case_names_parameters_as_the_users_model_does_behind_the_layers_index(tmp_path: Path) -> None:
    case = own_case(tmp_path)
    assert set(case.layout.parameters) == {f"0.{name}" for name in SHAPES}
    assert Case.from_json(case.to_json()) == case
    assert numbers.weights(case) == {}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"source": "model.py"}, r"source 'model.py'; allowed: package.module:function or file.py:function"),
        ({"source": "../model.py:build"}, r"file '../model.py'; allowed: paths inside of the working"),
        ({"files": {"/etc/passwd": "0"}}, r"file '/etc/passwd'; allowed: paths inside of the working"),
        ({"files": {}}, r"no digests; allowed: those of 1 file or more"),
        ({"tied": {"head.weight": "nowhere"}}, r"no parameter nowhere to tie to"),
    ],
)
def test_a_source_outside_of_the_working_directory_is_no_case(
    tmp_path: Path, fields: Mapping[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Model(layers=(own_layer(tmp_path, **fields),))


def test_a_users_module_is_the_only_layer(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"2 layers; a module of the user's is the only one"):
        Model(layers=(own_layer(tmp_path), Linear(inputs=1, outputs=1)))


def test_a_changed_source_is_refused_with_both_digests_and_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = own_case(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert check_runnable(case, trust=True) is case
    before = sources.digest(tmp_path / "model.py")
    after = sources.digest(written(tmp_path, "changed = True\n"))
    with pytest.raises(UsageError, match=rf"model.py has the SHA-256 {after}; the case was made of {before}"):
        check_runnable(case)
    monkeypatch.chdir("/")
    with pytest.raises(UsageError, match=r"cannot read model.py in '/': No such file or directory"):
        check_runnable(case)


def test_a_source_that_is_a_link_out_of_the_working_directory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, inside = own_case(tmp_path), tmp_path / "inside"
    inside.mkdir()
    (inside / "model.py").symlink_to(tmp_path / "model.py")
    monkeypatch.chdir(inside)
    with pytest.raises(UsageError, match=r"model.py is a link out of the working directory"):
        check_runnable(case)


def drawn(folder: Path, count: int = 40, **fields: object) -> list[Case]:
    description = own_description(folder, **fields)
    return [own.case_at(description, 7, index, max_world_size=4) for index in range(count)]


def test_cases_cover_the_paths_that_take_any_model_and_place_parameters_in_many_ways(tmp_path: Path) -> None:
    cases = drawn(tmp_path)
    assert cases == drawn(tmp_path)
    assert {case.path for case in cases} == set(own.paths())
    assert "data_parallel" in own.paths()
    assert "flash_attention" not in own.paths()
    placements = {at for case in cases for one in case.layout.parameters.values() for at in one}
    assert placements == {Replicate(), Shard(0), Shard(1)}
    whole = [set(case.layout.parameters["0.scale"]) for case in cases]
    assert all(one == {Replicate()} for one in whole), "a number has no dim to cut"


def test_cases_have_only_the_dtypes_in_which_the_module_runs(tmp_path: Path) -> None:
    assert {case.dtype for case in drawn(tmp_path)} == {"float32"}
    both = drawn(tmp_path, dtypes=("float32", "bfloat16"))
    assert {case.dtype for case in both} == {"float32", "bfloat16"}


def test_the_users_loss_and_optimizer_are_in_every_case(tmp_path: Path) -> None:
    cases = drawn(tmp_path, 10, loss="own", optimizer=True)
    assert {(case.training.loss, case.training.optimizer) for case in cases} == {("own", "own")}


def test_ddp_looks_for_parameters_without_a_gradient_where_there_are_any(tmp_path: Path) -> None:
    cases = drawn(tmp_path, 10, unused=True)
    assert all(case.replication.find_unused_parameters for case in cases)


def test_buffers_are_whole_in_every_layout(tmp_path: Path) -> None:
    kept = {"mean": Buffer(shape=(8,)), "calls": Buffer(shape=(), dtype="int64")}
    layer = own_layer(tmp_path, kept=kept)
    cases = drawn(tmp_path, 20, layer=layer)
    assert all({*case.model.statistics()} == {"0.mean", "0.calls"} for case in cases)
    assert {at for case in cases for at in case.layout.parameters["0.mean"]} == {Replicate()}
    assert cases[0].model.dtypes("bfloat16")["0.calls"] == "int64"
    assert cases[0].model.dtypes("bfloat16")["0.mean"] == "bfloat16"


def test_layouts_over_tp_are_often_those_of_the_plan_of_styles_on_the_sizes_where_it_runs(
    tmp_path: Path,
) -> None:
    layer = own_layer(tmp_path, styled={"head.weight": 0, "table.weight": 1}, styled_on=(2,))
    planned = {f"0.{name}": at for name, at in layer.styled_placements().items()}
    assert planned == {"0.head.weight": Shard(0), "0.table.weight": Shard(1), "0.scale": Replicate()}
    by_plan = [
        case
        for case in drawn(tmp_path, 80, layer=layer)
        if dict(case.layout.mesh.axes).get("tp") == 2
        and {name: at[-1] for name, at in case.layout.parameters.items()} == planned
    ]
    assert len(by_plan) > 3
    assert None in {torch_tp.unsupported(case) for case in by_plan}


def test_half_of_the_cases_whose_rows_influence_each_other_have_a_batch_on_every_rank(
    tmp_path: Path,
) -> None:
    layer = own_layer(tmp_path, rowwise=False, parts_run=True)
    cases = [case for case in drawn(tmp_path, 60, layer=layer) if case.path == "data_parallel"]
    apart = [case for case in cases if case.model.own and case.model.own.by_rank]
    assert 0 < len(apart) < len(cases)
    for case in cases:
        by_rank = case in apart
        assert (backends.load("torch_ddp").unsupported(case) is None) is by_rank
        assert (backends.load("torch_dtensor").unsupported(case) is None) is not by_rank
        assert not by_rank or case.data.batch % (2 * case.layout.data_ranks) == 0
    never = drawn(tmp_path, 20, layer=own_layer(tmp_path, rowwise=False))
    assert not any(case.model.own and case.model.own.by_rank for case in never)


def test_some_cases_have_a_parameter_that_is_frozen_or_trained_later(tmp_path: Path) -> None:
    cases = drawn(tmp_path, 120)
    names = [feature.name for case in cases for feature in case.training_features]
    assert {*names} == {"frozen", "unfreezing"}
    assert len(names) < len(cases) / 2


def test_long_runs_have_the_steps_asked_for_and_learn_with_adam(tmp_path: Path) -> None:
    assert {case.training.steps for case in drawn(tmp_path, 5, steps=40)} == {40}
    cases = drawn(tmp_path, 20, steps=40, learnable=True, dtypes=("float32", "bfloat16", "float16"))
    assert all(case.data.learnable for case in cases)
    assert {case.training.optimizer for case in cases} == {"adam", "adamw"}
    assert {case.dtype for case in cases} == {"float32", "bfloat16"}
    own_optimizer = drawn(tmp_path, 20, learnable=True, optimizer=True, dtypes=("float16",))
    assert {(case.training.optimizer, case.dtype) for case in own_optimizer} == {("own", "float16")}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--steps", "40"), "--steps needs --model"),
        (("--convergence",), "--convergence needs --model"),
        (("--model", "model.py:build", "--steps", "201"), "201 steps; allowed: 1 to 200"),
        (("--model", "model.py:build", "--steps", "0"), "0 steps; allowed: 1 to 200"),
        (
            ("--model", "model.py:build", "--steps", "9", "--convergence"),
            "9 steps with --convergence; allowed: 10 to 200",
        ),
    ],
)
def test_steps_that_no_run_can_have_are_refused_before_anything_is_built(
    arguments: tuple[str, ...], message: str
) -> None:
    refused = CliRunner().invoke(cli.difftest, ["case", *arguments])
    assert isinstance(refused.exception, UsageError)
    assert message in str(refused.exception)


def test_a_plan_gives_the_layouts(tmp_path: Path) -> None:
    mesh = Mesh((("dp", 2), ("tp", 2)))
    names = {f"0.{name}": (Replicate(), Replicate()) for name in SHAPES}
    cut: dict[str, Placements] = {**names, "0.head.weight": (Replicate(), Shard(1))}
    layout = Layout(mesh=mesh, batch=(Shard(0), Replicate()), parameters=cut)
    cases = drawn(tmp_path, 5, layouts=(layout,))
    assert {case.path for case in cases} == {own.PLANNED}
    assert all(case.layout == layout for case in cases)


def test_meshes_of_a_plan_have_every_number_of_ranks_that_is_allowed() -> None:
    assert {mesh.world_size for mesh in own.meshes(8)} == {2, 3, 4, 5, 6, 7, 8}
    assert {mesh.world_size for mesh in own.meshes(1)} == {1}


def test_a_path_with_models_of_its_own_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"'operators' has models of its own; a model of yours can"):
        own.case_at(own_description(tmp_path), 0, 0, wanted=("operators",), max_world_size=2)


def test_a_path_whose_cases_have_few_steps_is_refused_where_a_model_is_to_learn(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"'wrappers' has no task to learn; with --convergence allowed: data_p"
    ):
        own.case_at(own_description(tmp_path, learnable=True), 0, 0, wanted=("wrappers",), max_world_size=2)


@pytest.mark.parametrize("path", ["features", "replicated", "states", "wrappers"])
def test_a_named_path_gives_a_users_model_its_options_and_features(tmp_path: Path, path: str) -> None:
    description = own_description(tmp_path, dtypes=("float32", "bfloat16"))
    cases = [own.case_at(description, 7, index, wanted=(path,), max_world_size=4) for index in range(25)]
    assert path not in own.paths(), "a campaign that names no path has the cases that it had"
    assert {case.path for case in cases} == {path}
    assert all(Case.from_json(case.to_json()) == case for case in cases)
    used = {feature.name for case in cases for feature in case.training_features}
    assert used >= WHAT_A_PATH_DRAWS[path]
    assert (path == "wrappers") == any(case.sharded_by != Sharding() for case in cases)


def test_a_users_model_has_no_feature_that_it_cannot_run(tmp_path: Path) -> None:
    layer = msgspec.structs.replace(own_layer(tmp_path), rowwise=False)
    description = own_description(tmp_path, layer=layer)
    cases = [
        own.case_at(description, 7, index, wanted=("wrappers",), max_world_size=4) for index in range(30)
    ]
    assert {case.training.accumulation for case in cases} == {1}, "parts would be other batches"
    assert not any(has(case, *own.NARROWING) for case in cases), "it does not run in bfloat16"


def test_an_optimizer_of_the_users_is_given_no_arguments_of_torchs(tmp_path: Path) -> None:
    description = own_description(tmp_path, optimizer=True)
    cases = [
        own.case_at(description, 7, index, wanted=("features",), max_world_size=4) for index in range(30)
    ]
    made = [one for case in cases for one in typed(case.training_features)]
    assert not any(one.arguments() for one in made)
    assert not any(has(case, *own.IN_PLACE_OF_AN_OPTIMIZER) for case in cases)


def test_the_blocks_of_a_users_model_are_gathered_each_by_itself(tmp_path: Path) -> None:
    modules = {"": "Net", "blocks": "ModuleList", "blocks.0": "Block", "blocks.0.steps": "Sequential"}
    inside = {"blocks.0.steps.0": "Linear", "blocks.1": "Block", "blocks.2": "Identity", "head": "Linear"}
    names = ("blocks.0.steps.0.weight", "blocks.1.weight", "head.weight")
    shapes = dict.fromkeys(names, (4, 4))
    layer = own_layer(tmp_path, modules=modules | inside, parameters=shapes, tied={})
    case = own.case_at(own_description(tmp_path, layer=layer), 0, 0, wanted=("wrappers",), max_world_size=2)
    by_layer = msgspec.structs.replace(case, sharding=Sharding(wrapped="layers"))
    assert gathered_alone(by_layer) == ["0.blocks.1", "0.blocks.0", "0"]
    layer = msgspec.structs.replace(layer, tied={"blocks.1.other": "head.weight"})
    tied = msgspec.structs.replace(by_layer, model=Model(layers=(layer,)))
    assert gathered_alone(tied) == ["0.blocks.0"], "modules that share a parameter are in one group"


def test_where_rows_influence_each_other_wrappers_refuse_and_nothing_is_accumulated(tmp_path: Path) -> None:
    layer = msgspec.structs.replace(own_layer(tmp_path), rowwise=False)
    for case in drawn(tmp_path, layer=layer):
        assert case.training.accumulation == 1
        reasons = {name: backends.load(name).unsupported(case) for name in (*WRAPPERS, "torch_fsdp")}
        assert all(reasons.values()) or case.layout.data_ranks == 1
        assert backends.load("torch_dtensor").unsupported(case) is None
        assert backends.load("xla_spmd").unsupported(case) is None


@pytest.mark.parametrize("backend", ["torch_tp", "xla_tp"])
def test_backends_that_need_a_plan_of_styles_say_so(tmp_path: Path, backend: str) -> None:
    for case in (own_case(tmp_path), own_case(tmp_path).unsharded()):
        assert "plan of parallelize_module" in str(backends.load(backend).unsupported(case))


def a_request(folder: Path, **fields: object) -> CampaignRequest:
    plain: dict[str, Any] = {
        "out": folder,
        "ledger": folder,
        "fail_on": ("new",),
        "as_json": False,
        "seed": 0,
    }
    return CampaignRequest(**(plain | {"max_world_size": 2, "twice_every": 0} | fields))


def test_another_source_is_another_campaign(tmp_path: Path) -> None:
    def name(**fields: object) -> str:
        return define(a_request(tmp_path, **fields)).name

    first = own_description(tmp_path)
    written(tmp_path, "another = True\n")
    digest = sources.digest(tmp_path / "model.py")
    layer = msgspec.structs.replace(first.layer, files={"model.py": digest})
    other = msgspec.structs.replace(first, layer=layer)
    assert len({name(), name(model=first), name(model=other)}) == 3
    assert name(model=first) == name(model=first)


def test_a_campaign_of_a_plan_numbers_its_cases_from_0(tmp_path: Path) -> None:
    mesh = Mesh((("dp", 2),))
    layout = Layout(mesh=mesh, batch=(Shard(0),), parameters={f"0.{n}": (Replicate(),) for n in SHAPES})
    request = a_request(tmp_path, model=own_description(tmp_path, layouts=(layout,)), cases=3)
    assert [index for index, _ in generated_cases(request, CampaignRecord())] == [0, 1, 2]


MODULES = {"": "Tied", "table": "Embedding", "blocks": "ModuleList", "blocks.0": "Linear", "head": "Linear"}


def test_a_reduction_replaces_modules_and_their_parameters_go(tmp_path: Path) -> None:
    shapes = {"table.weight": (16, 8), "blocks.0.weight": (8, 8), "blocks.0.bias": (8,)}
    case = own_case(tmp_path, parameters=shapes, tied={"head.weight": "table.weight"}, modules=MODULES)
    layers = {layer.without: layer for _, one in fewer_features(case) if (layer := one.model.own)}
    assert {("table",), ("blocks",), ("blocks.0",), ("head",)} <= set(layers)
    assert set(layers["blocks",].parameters) == {"table.weight"}
    assert set(layers["blocks",].modules) == {"", "table", "head"}
    assert layers["head",].tied == {}
    heir = layers["table",]
    assert (heir.parameters["head.weight"], heir.tied) == ((16, 8), {}), "a tied weight is left to its heir"
    assert all(measure(one) < measure(case) for _, one in fewer_features(case))


def test_a_module_is_named_with_its_class(tmp_path: Path) -> None:
    case = own_case(tmp_path, modules=MODULES)
    assert called(case, (0, Stage.FORWARD, "module 0.blocks.0")) == "module 0.blocks.0 (Linear)"


def test_a_module_of_the_users_is_named_with_its_class_and_line(tmp_path: Path) -> None:
    case = own_case(
        tmp_path,
        modules={"": "Net", "head": "Head", "head.norm": "LayerNorm"},
        lines={"Net": "model.py:3", "Head": "model.py:9"},
    )
    assert called(case, (0, Stage.FORWARD, "module 0.head")) == "module 0.head (Head, model.py:9)"
    assert called(case, (0, Stage.FORWARD, "module 0.head.norm")) == "module 0.head.norm (LayerNorm)"
    located = [
        "forward, step 0: module 0.head (Head, model.py:9), after module 0.q (Linear), which agrees: 1 / 4"
    ]
    assert place(located) == "module 0.head (Head, model.py:9)"


def test_a_users_optimizer_may_be_replaced_and_the_loss_may_not(tmp_path: Path) -> None:
    case = own_case(tmp_path)
    case = case.changed("training", optimizer="own", loss="own")
    plainer = {one.training.optimizer for _, one in plainer_optimizer(case)}
    assert "sgd" in plainer
    assert not list(squared_error(case))


def test_a_case_is_printed_as_a_file_that_other_commands_read(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli.difftest, ["case", "--seed", "3", "--index", "2"])
    file = tmp_path / "case.json"
    file.write_bytes(done.stdout_bytes)
    assert read_case(file) == case_at(3, 2)


def test_cases_of_a_changed_source_are_left_out_of_a_night(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = own_case(tmp_path)
    monkeypatch.chdir(tmp_path)
    own_cases.remember_module(case.model.layers[0])  # type: ignore[arg-type]
    assert is_runnable(case)
    written(tmp_path, "changed = True\n")
    assert not is_runnable(case)


def test_the_front_page_shows_the_documented_model() -> None:
    assert documented() in FRONT.read_text()


def test_a_path_that_draws_nothing_that_the_model_can_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own, "_can_run", lambda *_: False)
    monkeypatch.setattr(own, "MOST_DRAWS", 5)
    with pytest.raises(UsageError, match=r"path states: none of 5 cases .* model\.py:build can run"):
        own.case_at(own_description(tmp_path), 0, 0, wanted=("states",), max_world_size=2)
