"""Recorders as callbacks of the real packages, where they are installed."""

import subprocess
import sys
from pathlib import Path

import pytest

import difftest

pytestmark = pytest.mark.slow

SCRIPT = """
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


def test_a_trainer_of_hugging_face_is_recorded_and_keeps_its_bits(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="needs transformers and accelerate")
    pytest.importorskip("accelerate", reason="needs transformers and accelerate")
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    found = difftest.compare(tmp_path / "whole", tmp_path / "parts")
    assert found.verdict == "equal within rounding", found.first
    assert (found.steps, found.skipped) == (3, {})
    assert "micro-batches of a step" in {one.name for one in found.settings}
