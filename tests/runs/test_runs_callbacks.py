"""Recorders in the training loops of the real packages, where they are installed."""

import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from installed_packages import needs
from pages import ROOT

import difftest
from difftest.runs import layout
from difftest.runs.read import read

pytestmark = pytest.mark.slow

HUGGING_FACE = """
import sys
sys.modules["torch_xla"] = None  # the Trainer would take it for the device
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
from workers.runs.callbacks import hugging_face

def train(out, parts, batch):
    torch.manual_seed(0)
    config = GPT2Config(n_layer=1, n_embd=32, n_head=4, vocab_size=64, n_positions=16,
                        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config)
    tokens = torch.randint(64, (32, 16), generator=torch.Generator().manual_seed(3))
    arguments = TrainingArguments(
        output_dir=sys.argv[1], per_device_train_batch_size=batch, gradient_accumulation_steps=parts,
        max_steps=3, report_to=[], save_strategy="no", use_cpu=True, seed=1, disable_tqdm=True,
    )
    callbacks = [hugging_face(out=out)] if out else []
    data = [{"input_ids": row, "labels": row} for row in tokens]
    Trainer(model=model, args=arguments, train_dataset=data, callbacks=callbacks).train()
    return list(model.parameters())

plain, recorded = train(None, 1, 8), train(sys.argv[1] + "/whole", 1, 8)
assert all(torch.equal(one, two) for one, two in zip(plain, recorded))
train(sys.argv[1] + "/parts", 4, 2)
"""

LIGHTNING = """
import sys
sys.modules["torch_xla"] = None  # the Trainer would take it for the device
import torch
from lightning import LightningModule, Trainer
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader
from workers.runs.callbacks import lightning

TOKENS = torch.randint(64, (32, 16), generator=torch.Generator().manual_seed(3))

class Toy(LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Embedding(64, 32), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 64))

    def forward(self, tokens):
        return self.net(tokens)

    def training_step(self, tokens, _):
        return functional.cross_entropy(self(tokens).flatten(0, 1), tokens.flatten())

    def train_dataloader(self):
        return DataLoader(TOKENS, batch_size=self.batch)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)

def train(out, parts, batch):
    torch.manual_seed(0)
    model = Toy()
    model.batch = batch
    Trainer(
        accelerator="cpu", devices=1, max_steps=3, accumulate_grad_batches=parts, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        callbacks=[lightning(out=out)] if out else [],
    ).fit(model)
    return [p.detach() for p in model.parameters()]

torch.set_num_threads(1)
plain, recorded = train(None, 1, 8), train(sys.argv[1] + "/whole", 1, 8)
assert all(torch.equal(one, two) for one, two in zip(plain, recorded))
train(sys.argv[1] + "/parts", 4, 2)
"""

ACCELERATE = """
import sys
sys.modules["torch_xla"] = None  # accelerate would take it for the device
import torch
from accelerate import Accelerator
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader
import difftest

TOKENS = torch.randint(64, (32, 16), generator=torch.Generator().manual_seed(3))

def train(out, parts, batch):
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=parts)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(64, 32), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 64))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer, data = accelerator.prepare(model, optimizer, DataLoader(TOKENS, batch_size=batch))
    recorder = difftest.record(model, optimizer, out=out) if out else None
    for tokens in data:
        with accelerator.accumulate(model):
            loss = functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        if recorder and accelerator.sync_gradients:
            recorder.step()
    if recorder:
        recorder.close()
    return [p.detach() for p in model.parameters()]

torch.set_num_threads(1)
out = sys.argv[1]
if Accelerator(cpu=True).num_processes == 2:
    train(out + "/ranks", 1, 4)
else:
    plain, recorded = train(None, 1, 8), train(out + "/whole", 1, 8)
    assert all(torch.equal(one, two) for one, two in zip(plain, recorded))
    train(out + "/parts", 4, 2)
"""

TORCHTITAN = """
import os, sys, torch
os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[2])
torch._utils._get_available_device_type = lambda: "cpu"  # torchtitan expects an accelerator
from dataclasses import dataclass
from types import SimpleNamespace
import torchtitan.trainer
from torchtitan.components import metrics
from torchtitan.components.dataloader import BaseDataLoader
from torchtitan.config import Configurable
from torchtitan.models.common.attention import ScaledDotProductAttention
from torchtitan.models.llama3 import config_registry, model_registry
from workers.runs.callbacks import torchtitan as record

sizes = [f"max_{kind}_{unit}" for kind in ("active", "reserved") for unit in ("gib", "pct")]
memory = SimpleNamespace(**dict.fromkeys([*sizes, "num_alloc_retries", "num_ooms"], 0.0))
metrics.build_device_memory_monitor = lambda: SimpleNamespace(
    get_peak_stats=lambda: memory, reset_peak_stats=lambda: None, device_name="cpu", device_capacity=1)
torchtitan.trainer.dist_utils.set_pg_timeouts = lambda *_, **__: None

class NoTokenizer(Configurable):
    @dataclass(kw_only=True, slots=True)
    class Config(Configurable.Config):
        pass

    def __init__(self, config, **_):
        pass

class Random(BaseDataLoader):
    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        pass

    def __init__(self, config, *, seq_len, local_batch_size, **_):
        self.length, self.size = seq_len, local_batch_size

    def __iter__(self):
        generator = torch.Generator().manual_seed(5)
        while True:
            rows = torch.randint(2048, (8, self.length + 1), generator=generator)
            for own in rows.split(self.size):
                positions = torch.arange(self.length).expand(self.size, -1).contiguous()
                yield {"input": own[:, :-1].contiguous(), "positions": positions}, own[:, 1:].contiguous()

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass

def train(out, batch):
    config = config_registry.llama3_debugmodel_ce_loss()
    config.model_spec = model_registry("debugmodel", attn_backend="flex")
    config.model_spec.model.layers = config.model_spec.model.layers[:2]
    for layer in config.model_spec.model.layers:  # flex has no backward pass on a CPU
        layer.attention.inner_attention = ScaledDotProductAttention.Config()
    training = config.training
    training.local_batch_size, training.global_batch_size, training.seq_len, training.steps = batch, 8, 32, 3
    training.mixed_precision_param, training.disable_cuda_graphs = "float32", True
    config.dataloader, config.tokenizer = Random.Config(), NoTokenizer.Config()
    config.activation_checkpoint = None
    config.validator.enable = config.checkpoint.enable = False
    config.debug.seed, config.dump_folder = 0, sys.argv[1] + "/dump"
    trainer = config.build()
    if out:
        record(trainer, out=out)
    trainer.train()
    trainer.close()
    parameters = [p.full_tensor().detach().clone() for p in trainer.model_parts[0].parameters()]
    torch.distributed.destroy_process_group()
    return parameters

plain, recorded = train(None, 8), train(sys.argv[1] + "/whole", 8)
assert all(torch.equal(one, two) for one, two in zip(plain, recorded))
train(sys.argv[1] + "/parts", 2)
"""


def run(arguments: Sequence[str]) -> None:
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_trainer_of_hugging_face_is_recorded_and_keeps_its_bits(tmp_path: Path) -> None:
    needs("transformers", reason="needs transformers and accelerate")
    pytest.importorskip("accelerate", reason="needs transformers and accelerate")
    run(["-c", HUGGING_FACE, str(tmp_path)])
    found = difftest.compare(tmp_path / "whole", tmp_path / "parts")
    assert found.verdict == "equal within rounding", found.first
    assert (found.steps, found.skipped) == (3, {})
    assert "micro-batches of a step" in {one.name for one in found.settings}


def expect_equal_runs(folder: Path, steps: int, *names: str) -> None:
    """These runs are equal to the one of whole batches, which has every gradient in every step."""
    for name in names:
        found = difftest.compare(folder / "whole", folder / name)
        assert found.verdict == "equal within rounding", (name, found.first)
        assert (found.steps, found.skipped) == (steps, {}), name
    for step in range(steps):
        gradients = [key for key in read(folder / "whole").whole(step) if key[0] == layout.GRADIENT]
        assert len(gradients) == 5


def test_a_trainer_of_lightning_is_recorded_and_keeps_its_bits(tmp_path: Path) -> None:
    pytest.importorskip("lightning", reason="needs lightning")
    run(["-c", LIGHTNING, str(tmp_path)])
    expect_equal_runs(tmp_path, 3, "parts")


def test_a_loop_of_accelerate_is_recorded_and_keeps_its_bits(tmp_path: Path) -> None:
    pytest.importorskip("accelerate", reason="needs accelerate")
    script = tmp_path / "script.py"
    script.write_text(f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{ACCELERATE}")
    run([str(script), str(tmp_path)])
    run(["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script), str(tmp_path)])
    expect_equal_runs(tmp_path, 4, "parts", "ranks")


def test_a_trainer_of_torchtitan_is_recorded_and_keeps_its_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torchtitan", reason="needs torchtitan, and its torch")
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    run(["-c", TORCHTITAN, str(tmp_path), str(port)])
    found = difftest.compare(tmp_path / "whole", tmp_path / "parts")
    assert (found.verdict, found.steps, found.skipped) == ("equal within rounding", 3, {}), found.first
    assert "micro-batches of a step" in {one.name for one in found.settings}
    assert read(tmp_path / "whole").loss(0) == pytest.approx(read(tmp_path / "parts").loss(0), rel=1e-5)
