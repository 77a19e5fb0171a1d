"""Faults planted from outside into real models, on either side: found, blamed, and located at the module.

A file of a user's builds the model of a package and replaces a function or a module of it where a tensor is
on XLA, or on the second rank alone.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from own_models import described_in

from difftest.campaign.campaign import Campaign
from difftest.campaign.localise import place
from difftest.campaign.run import run
from difftest.cases.case import Case
from difftest.records.corpus import Corpus
from difftest.records.finding import Finding
from generators import own
from workers import backends
from workers.isolate import sandbox

pytest.importorskip("transformers", reason="needs transformers: pip install 'difftest[models]'")
pytestmark = [pytest.mark.slow, pytest.mark.xla, pytest.mark.nightly]

ON_XLA, ON_RANK = "xla backend fault", "torch sharding fault"

HEAD = """
import torch
from torch import nn
from torch.nn import functional


def on_xla(tensor):
    return tensor.device.type == "xla"


def on_rank(tensor):
    there = torch.distributed.is_available() and torch.distributed.is_initialized()
    return there and not on_xla(tensor) and torch.distributed.get_rank() == 1


def after(module, change):
    \"\"\"The module's output is what `change` makes of it.\"\"\"
    module.register_forward_hook(lambda _module, _inputs, output: change(output))
"""

TOKENS = """
def batch(generator, rows):
    tokens = torch.randint(0, 64, (rows, 6), generator=generator)
    return {"input_ids": tokens, "labels": tokens}, tokens


def loss(outputs, _targets):
    return outputs.loss
"""

IMAGES = """
def batch(generator, rows):
    images = torch.randn(rows, 3, 32, 32, generator=generator)
    return images, torch.randint(0, 10, (rows,), generator=generator)
"""


@dataclass(frozen=True)
class Fault:
    """A model with something wrong, as its source; what blame and place a finding must have."""

    build: str
    blame: str
    place: str
    tensor: str = ""
    batch: str = TOKENS
    torch: str = "torch_ddp"

    @property
    def source(self) -> str:
        """The file."""
        return f"{HEAD}{self.batch}\n{self.build}"


SMALL = "hidden_size=16, intermediate_size=32, num_attention_heads=2, vocab_size=64"
LLAMA = f"LlamaForCausalLM(LlamaConfig({SMALL}, num_key_value_heads=2, num_hidden_layers=2))"
GPT2 = "GPT2LMHeadModel(GPT2Config(n_embd=16, n_head=2, n_layer=2, vocab_size=64, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))"  # noqa: E501

FAULTS = {
    "causal mask off by one": Fault(
        build=f"""
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

right = ALL_ATTENTION_FUNCTIONS["sdpa"]


def attention(module, query, key, value, attention_mask, **options):
    if on_xla(query):
        length = query.shape[2]
        attention_mask = torch.ones(length, length, dtype=torch.bool, device=query.device).tril(1)
    return right(module, query, key, value, attention_mask, **options)


ALL_ATTENTION_FUNCTIONS.register("sdpa", attention)


def build(seed):
    return {LLAMA}
""",
        blame=ON_XLA,
        place=r"module 0\.model\.layers\.0\.self_attn \(LlamaAttention.*\) before its o_proj \(Linear\)",
    ),
    "rotary table": Fault(  # located where it is read
        build=f"""
from transformers import LlamaConfig, LlamaForCausalLM


def build(seed):
    model = {LLAMA}
    after(model.model.rotary_emb, lambda pair: (pair[0] * 0.9, pair[1]) if on_rank(pair[0]) else pair)
    return model
""",
        blame=ON_RANK,
        place=r"module 0\.model\.layers\.0\.self_attn \(LlamaAttention.*\) before its o_proj \(Linear\)",
    ),
    "router": Fault(  # located at its block: the experts' outputs have no rows
        build=f"""
from transformers import MixtralConfig, MixtralForCausalLM


def build(seed):
    model = MixtralForCausalLM(
        MixtralConfig({SMALL}, num_key_value_heads=2, num_hidden_layers=1, num_local_experts=4)
    )
    for layer in model.model.layers:
        router = layer.mlp.gate
        after(router, lambda three: (*three[:2], (three[2] + 1) % 4) if on_rank(three[0]) else three)
    return model
""",
        blame=ON_RANK,
        place=r"module 0\.model\.layers\.0\.mlp \(MixtralSparseMoeBlock.*\)",
    ),
    "running statistics": Fault(  # the mean: torch_xla computes a wrong variance by itself
        build="""
from torchvision.models import ShuffleNetV2


def build(seed):
    model = ShuffleNetV2([1, 1, 1], [8, 16, 32, 64, 64], num_classes=10)
    norm = model.conv1[1]

    def forget(_norm, inputs):
        if on_xla(inputs[0]):
            with torch.no_grad():
                norm.running_mean.add_(0.125)

    norm.register_forward_pre_hook(forget)
    return model
""",
        blame=ON_XLA,
        place="",
        tensor="0.conv1.1.running_mean",
        batch=IMAGES,
        torch="torch_dtensor",
    ),
    "tied head": Fault(
        build=f"""
from transformers import GPT2Config, GPT2LMHeadModel


def build(seed):
    model = {GPT2}
    head = model.lm_head

    def forward(hidden):
        return functional.linear(hidden, head.weight.detach() if on_xla(hidden) else head.weight)

    head.forward = forward
    return model
""",
        blame=ON_XLA,
        place="",
        tensor="0.transformer.wte.weight",
    ),
    "loss scale": Fault(
        build=f"""
from transformers import BertConfig, BertForMaskedLM


def build(seed):
    return BertForMaskedLM(
        BertConfig({SMALL}, num_hidden_layers=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    )


def loss(outputs, targets):
    return outputs.loss * (1.125 if on_rank(outputs.loss) else 1.0)
""",
        blame=ON_RANK,
        place="",
        tensor="loss",
    ),
    "layer norm": Fault(
        build="""
import timm


def build(seed):
    model = timm.create_model(
        "vit_tiny_patch16_224", num_classes=10, depth=2, embed_dim=24, num_heads=2, img_size=32
    )
    after(model.blocks[1].norm1, lambda output: output * 1.01 if on_rank(output) else output)
    return model
""",
        blame=ON_RANK,
        place=r"module 0\.blocks\.1\.norm1 \(LayerNorm.*\)",
        batch=IMAGES,
    ),
    "relative position": Fault(
        build="""
from transformers import T5Config, T5ForConditionalGeneration


def build(seed):
    model = T5ForConditionalGeneration(
        T5Config(
            d_model=16, d_kv=8, d_ff=32, num_heads=2, num_layers=1, vocab_size=64, dropout_rate=0.0,
            decoder_start_token_id=0,
        )
    )
    attention = model.encoder.block[0].layer[0].SelfAttention
    table = attention.relative_attention_bias
    after(table, lambda output: output.flip(-1) if on_xla(output) else output)
    return model
""",
        blame=ON_XLA,
        place=r"module 0\.encoder\.block\.0\.layer\.0\.SelfAttention\.relative_attention_bias \(Embedding\)",
    ),
    "convolution of a state space": Fault(
        build="""
from transformers import MambaConfig, MambaForCausalLM


def build(seed):
    model = MambaForCausalLM(MambaConfig(hidden_size=16, state_size=4, num_hidden_layers=2, vocab_size=64))
    mixer = model.backbone.layers[0].mixer
    after(mixer.in_proj, lambda output: output.roll(1, 1) if on_xla(output) else output)
    return model
""",
        blame=ON_XLA,
        place=r"module 0\.backbone\.layers\.0\.mixer\.in_proj \(Linear\)",
    ),
    "time of a diffusion": Fault(
        build="""
from diffusers import UNet2DModel


def build(seed):
    model = UNet2DModel(
        sample_size=16, in_channels=2, out_channels=2, layers_per_block=1, block_out_channels=(16, 32),
        norm_num_groups=8, down_block_types=("DownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "UpBlock2D"),
    )
    after(model.time_proj, lambda output: output.flip(-1) if on_rank(output) else output)
    return model


def batch(generator, rows):
    sample = torch.randn(rows, 2, 16, 16, generator=generator)
    return {"sample": sample, "timestep": torch.randint(0, 999, (rows,), generator=generator)}, sample
""",
        blame=ON_RANK,
        place=r"module 0\.time_proj \(Timesteps.*\)",
        batch="",
    ),
}


def findings_of(folder: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault) -> list[Finding]:
    """What a campaign of one case finds on a backend of each side."""
    description = described_in(folder, monkeypatch, fault.source)
    cases = (own.case_at(description, 0, i, wanted=("data_parallel",), max_world_size=2) for i in range(99))
    case = next(one for one in cases if one.dtype == "float32" and one.world_size > 1)
    corpus = Corpus(folder / "corpus")
    corpus.prepare()
    both = {name: backends.load(name) for name in (fault.torch, "xla_spmd")}
    campaign = Campaign(
        name="planted",
        backends=both,
        execute=lambda given, backend, options: sandbox.run(given, backend, options=options),
        corpus=corpus,
    )
    for _ in run(campaign, [(0, _plain(case))]):
        pass
    return list(corpus.findings())


def _plain(case: Case) -> Case:
    """One step of SGD with four rows."""
    training = msgspec.structs.replace(
        case.training, optimizer="sgd", learning_rate=0.125, steps=1, accumulation=1, clip_norm=None
    )
    data = msgspec.structs.replace(case.data, batch=4)
    return msgspec.structs.replace(
        case, training=training, data=data, features=msgspec.UNSET, spelling=msgspec.UNSET
    )


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_a_real_model_is_found_blamed_and_located(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    fault = FAULTS[name]
    side = "xla" if fault.blame == ON_XLA else "torch"
    findings = [one for one in findings_of(tmp_path, monkeypatch, fault) if one.divergence.side == side]
    assert [one.blame for one in findings] == [fault.blame]
    (finding,) = findings
    if fault.tensor:
        assert finding.divergence.tensor == fault.tensor
    if fault.place:
        assert re.fullmatch(fault.place, place(finding.located)), finding.located
