"""The source file that a reproducer has of a model by name."""

import ast

import msgspec
import pytest

from difftest.cases.recipe import Feed, Recipe
from reports.reproducer.recipe import text

LLAMA = Recipe(
    package="transformers",
    call="LlamaForCausalLM",
    config="LlamaConfig",
    arguments={"hidden_size": 32},
    inputs=(Feed(name="input_ids", row=(12,), high=64), Feed(name="labels", row=(12,), high=64)),
    targets=Feed(name="labels", row=(12,), high=64),
)
IMAGES = Recipe(
    package="torchvision",
    call="resnet18",
    arguments={"num_classes": 10},
    inputs=(Feed(name="0", row=(3, 32, 32)),),
    targets=Feed(name="targets", high=10),
    loss="cross_entropy",
)


def test_a_model_with_a_config_and_its_own_loss_is_written_as_somebody_would() -> None:
    assert (
        text("hf:llama", LLAMA)
        == """\"\"\"hf:llama at a small size, with random weights.\"\"\"

import torch
import transformers


def build(seed):
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(hidden_size=32))


def batch(generator, rows):
    input_ids = torch.randint(0, 64, (rows, 12), generator=generator)
    labels = torch.randint(0, 64, (rows, 12), generator=generator)
    return {"input_ids": input_ids, "labels": labels}, labels


def loss(outputs, targets):
    return outputs.loss
"""
    )


def test_what_arguments_cannot_say_is_done_to_the_model() -> None:
    recipe = msgspec.structs.replace(IMAGES, calm=True, cut={"encoder.layers": 2}, head="classifier")
    assert """    model = torchvision.models.get_model('resnet18', weights=None, num_classes=10)
    del model.get_submodule('encoder.layers')[2:]
    width = next(one.in_features for one in model.classifier.modules() if isinstance(one, torch.nn.Linear))
    model.classifier = torch.nn.Linear(width, 10)
    for module in model.modules():
        for name in ('p', 'drop_prob', 'dropout_prob'):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    return model
""" in text("a:b", recipe)


@pytest.mark.parametrize("package", ["timm", "torchvision", "diffusers"])
def test_every_package_has_its_own_call_and_random_weights(package: str) -> None:
    recipe = msgspec.structs.replace(IMAGES, package=package)
    written = text("a:b", recipe)
    ast.parse(written)
    calls = {
        "timm": "timm.create_model('resnet18', pretrained=False, num_classes=10)",
        "torchvision": "torchvision.models.get_model('resnet18', weights=None, num_classes=10)",
        "diffusers": "diffusers.resnet18(num_classes=10)",
    }
    assert f"return {calls[package]}\n" in written
    assert "input_0 = torch.randn(rows, 3, 32, 32, generator=generator)" in written
    assert "return (input_0,), targets" in written
    assert "def loss" not in written
