"""Recorders in the training loops of the real packages, where they are installed."""

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
