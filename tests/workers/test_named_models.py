"""Models by name: what the sources make of packages, and that they agree where they train alike."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner
from installed_packages import needs
from own_models import descriptions

from difftest.cases.described import Answer, Description
from difftest.cases.layout import Mesh
from difftest.commands.models import command
from difftest.jobs.proof.real_models import compared
from tools.real_models import words
from workers.isolate import described as isolate_described
from workers.isolate.described import described_each, listed
from workers.own.named import hf
from workers.plain_layouts import LAYOUTS

needs("transformers", reason="needs transformers: pip install 'difftest[models]'")
pytestmark = pytest.mark.slow

MESHES = (Mesh((("dp", 2),)),)

NIGHTLY = (
    "hf:llama",
    "hf:mixtral",
    "hf:gpt2",
    "hf:bert",
    "hf:t5",
    "hf:whisper",
    "hf:mamba",
    "timm:vit_tiny_patch16_224",
    "torchvision:resnet18",
    "diffusers:UNet2DModel",
)
"""Attention, experts, encoder and decoder, speech, state space, convolution and diffusion."""


REFUSED = {
    "hf:lama": r"hf has no model 'lama'; did you mean hf:.*`difftest models hf` lists all",
    "hf:nobody/nothing": "no config of 'nobody/nothing' on this disk",
    "keras": "allowed: package.module:function, file.py:function, or a name such as hf:llama",
}
AWKWARD = (
    "timm:swin_tiny_patch4_window7_224",
    "torchvision:vgg11_bn",
    "torchvision:vit_b_16",
    "hf:xlm",
    "hf:mamba2",
)
"""Models that drop branches at random, are too large as they are, or have names and numbers of their own."""

CONFIG = {
    "model_type": "gpt2",
    "n_embd": 24,
    "n_head": 4,
    "n_layer": 6,
    "auto_map": {"AutoModel": "evil.py"},
}


@pytest.fixture(scope="module")
def answers(work: Path) -> Mapping[str, Answer]:
    """What is known of the names, from one process: transformers takes 10 s of CPU time to import."""
    folder = work / "org" / "name"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    names = ("hf:gpt2", "hf:org/name", *REFUSED)
    return dict(zip(names, descriptions(work, names, MESHES), strict=True))


def test_a_type_of_transformers_is_built_small_with_its_own_loss_and_no_dropout(
    answers: Mapping[str, Answer],
) -> None:
    description = answers["hf:gpt2"].description
    assert description
    recipe = description.layer.recipe
    assert recipe is not None
    assert (recipe.call, recipe.loss, description.loss) == ("GPT2LMHeadModel", "own", "own")
    assert (recipe.arguments["n_embd"], recipe.arguments["n_layer"]) == (32, 2)
    assert recipe.arguments["resid_pdrop"] == recipe.arguments["attn_pdrop"] == 0.0
    assert description.layer.files == {}
    assert description.layer.rowwise


def test_a_config_on_this_disk_is_the_models(answers: Mapping[str, Answer]) -> None:
    description = answers["hf:org/name"].description
    assert description
    recipe = description.layer.recipe
    assert recipe is not None
    assert (recipe.arguments["n_embd"], recipe.arguments["n_layer"]) == (24, 2)
    assert "auto_map" not in recipe.arguments


@pytest.mark.nightly
def test_models_that_draw_are_large_or_have_numbers_of_their_own_are_described(work: Path) -> None:
    answers = dict(zip(AWKWARD, descriptions(work, AWKWARD, MESHES), strict=True))
    assert {name: answer.error for name, answer in answers.items() if not answer.description} == {}


@pytest.mark.parametrize("source", REFUSED)
def test_a_name_that_there_is_none_of_is_refused_with_what_is_allowed(
    source: str, answers: Mapping[str, Answer]
) -> None:
    assert re.search(REFUSED[source], answers[source].error), answers[source].error


def test_the_width_of_the_first_of_several_stages_fits_its_heads() -> None:
    swin = {"embed_dim": 96, "num_heads": [3, 6, 12, 24], "depths": [2, 2, 6, 2], "window_size": 7}
    small = hf._small(swin, set())  # noqa: SLF001  the search begins with it
    assert small == {"embed_dim": 24, "num_heads": [3, 6, 12, 24], "depths": [1, 1, 1, 1], "window_size": 7}


@pytest.mark.nightly
def test_the_names_of_a_source_are_listed() -> None:
    assert {"llama", "bert", "mixtral"} <= {*listed("hf").names}


def test_a_model_is_printed_with_what_it_is_fed(
    answers: Mapping[str, Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolate_described, "described", lambda source, _meshes: answers[source].description)
    shown = CliRunner().invoke(command, ["hf:gpt2"]).output
    assert "GPT2LMHeadModel" in shown
    assert "input_ids: (rows, 12), 0 to 63" in shown


def test_a_model_by_name_agrees_on_layouts_of_two_ranks(
    answers: Mapping[str, Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolate_described, "described", lambda source, _meshes: answers[source].description)
    verdicts = {layout: one.verdict for layout, one, _ in compared("hf:gpt2", ("ddp", "fsdp"), steps=2)}
    assert verdicts == {"ddp": "agree", "fsdp": "agree"}


@pytest.mark.nightly
def test_a_model_of_several_stages_is_described() -> None:
    """Its search takes a minute; on every change a test has the numbers with which it begins."""
    ((_, description),) = described_each(["hf:swin"])
    assert isinstance(description, Description)


@pytest.mark.nightly
@pytest.mark.parametrize("source", NIGHTLY)
def test_real_models_have_no_finding_that_nobody_knows(source: str) -> None:
    ((_, description),) = described_each([source])
    rows = dict(words(description, tuple(LAYOUTS), 2))
    assert "agree" in rows.values()
    assert not {layout: word for layout, word in rows.items() if word.startswith("**")}
