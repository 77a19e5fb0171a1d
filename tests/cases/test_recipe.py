"""Models by name as data: what a case from elsewhere may call."""

import msgspec
import pytest
from own_models import SHAPES

from difftest.cases.case import Case, Data, Training
from difftest.cases.layers.own import Own
from difftest.cases.layout import Layout, Mesh, Replicate, Shard
from difftest.cases.model import Model
from difftest.cases.recipe import NAMED, Feed, Recipe

RECIPE = Recipe(
    package="transformers",
    call="LlamaForCausalLM",
    config="LlamaConfig",
    arguments={"hidden_size": 32, "rope_parameters": {"rope_type": "default"}},
    inputs=(Feed(name="input_ids", row=(12,), high=64), Feed(name="labels", row=(12,), high=64)),
    targets=Feed(name="labels", row=(12,), high=64),
)


def layer(recipe: Recipe = RECIPE, source: str = "hf:llama", **fields: object) -> Own:
    plain = {"source": source, "files": {}, "parameters": SHAPES, "recipe": recipe, "modules": {"": "Llama"}}
    return msgspec.convert(plain | fields, type=Own)


def case(recipe: Recipe = RECIPE) -> Case:
    model = Model(layers=(layer(recipe),))
    layout = Layout(
        mesh=Mesh((("dp", 2),)),
        batch=(Shard(0),),
        parameters=dict.fromkeys(model.parameters(), (Replicate(),)),
    )
    training = Training(loss="own")
    return Case(path="data_parallel", model=model, layout=layout, training=training, data=Data(batch=8))


@pytest.mark.parametrize("name", ["hf:llama", "hf:org/name", "timm:vit_tiny_patch16_224", "diffusers:X"])
def test_a_name_has_a_source_before_it(name: str) -> None:
    assert NAMED.fullmatch(name)


def test_a_file_of_the_users_is_no_name() -> None:
    assert not NAMED.fullmatch("model.py:build")


def test_a_case_of_a_model_by_name_is_read_as_it_was_written() -> None:
    assert Case.from_json(case().to_json()) == case()
    assert case().model.titles == ["Llama (hf:llama)"]


@pytest.mark.parametrize("path", ["", "a b", "encoder..layers", "__import__('os')", "0.layers"])
def test_what_is_changed_is_the_path_of_a_module(path: str) -> None:
    plain = msgspec.to_builtins(RECIPE)
    for change in ({"head": path}, {"cut": {path: 2}}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(plain | change, type=Recipe)


@pytest.mark.parametrize("text", ["../../etc/passwd", "hub.example/evil", "https://x", "a" * 201, "x.pth"])
def test_no_argument_may_name_a_place(text: str) -> None:
    for arguments in ({"x": text}, {"x": [text]}, {"x": {text: 1}}):
        recipe = msgspec.structs.replace(RECIPE, arguments=arguments)
        assert "the argument" in layer(recipe).contradiction()
    assert not layer().contradiction()


@pytest.mark.parametrize("name", ["checkpoint_path", "pretrained", "weights_backbone", "vocab_file"])
def test_no_text_stands_where_a_package_would_load_something(name: str) -> None:
    for arguments, wrong in (({name: "x"}, True), ({"inner": {name: ["x"]}}, True), ({name: None}, False)):
        recipe = msgspec.structs.replace(RECIPE, arguments=arguments)
        assert bool(layer(recipe).contradiction()) is wrong, arguments


@pytest.mark.parametrize(
    "wrong", [{"call": "os.system"}, {"package": "os"}, {"config": "a b"}, {"arguments": {"a b": 1}}]
)
def test_what_is_called_is_a_plain_name_of_a_listed_package(wrong: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(msgspec.to_builtins(RECIPE) | wrong, type=Recipe)


def test_a_model_by_name_has_no_files() -> None:
    assert "no files" in layer(files={"model.py": "0" * 64}).contradiction()
    assert "no files" in layer(source="model.py:build").contradiction()
