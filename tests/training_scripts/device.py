"""nanoGPT's model on one device of the environment variable DEVICE: `cuda`, `cpu`, `xla` or `tpu`.

`tpu` is that of torch_tpu, whose PJRT plugin TPU_LIBRARY_PATH names. `PRECISION=bf16` runs the model under
autocast, `PRECISION=tf32` with products of TF32 on a GPU. RESULT is a file for the parameters at the end.
"""

import os
import sys
import time
from importlib import import_module

import numpy as np
import torch

import difftest
from training_scripts import nano

device = os.environ["DEVICE"]
precision = os.environ.get("PRECISION", "float32")
nano.block_size, nano.vocab_size, nano.n_head = 64, 256, 4
nano.n_layer, nano.n_embd = int(os.environ.get("LAYERS", "4")), int(os.environ.get("WIDTH", "128"))
batch_size, steps = int(os.environ.get("BATCH", "8")), int(os.environ.get("STEPS", "4"))
every = int(os.environ.get("EVERY", "1"))


def batch(step):
    """Inputs and targets, equal on every device."""
    generator = torch.Generator().manual_seed(step)
    tokens = torch.randint(nano.vocab_size, (batch_size, nano.block_size + 1), generator=generator)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def main():
    """Trains, records where OUT is not empty, and prints the mean time of the later steps."""
    torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    sync = torch.cuda.synchronize if device == "cuda" else int
    if device == "tpu":
        import_module("torch_tpu._loader")._init_device("tpu")  # noqa: SLF001  torch does it beside a TPU
        torch.set_float32_matmul_precision("highest")
        for kernel in ("flash", "mem_efficient", "cudnn"):  # XLA:CPU has no kernels of a TPU's
            getattr(torch.backends.cuda, f"enable_{kernel}_sdp")(enabled=False)
    place = torch.device(device if device != "xla" else "cpu")
    if device == "xla":
        torch_xla = import_module("torch_xla")
        place, sync = torch_xla.device(), torch_xla.sync
    torch.manual_seed(1337)
    model = nano.GPT().to(place)
    model.lm_head.weight = model.transformer.wte.weight  # a move to XLA breaks the tie
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), foreach=True)
    out, perturb = os.environ["OUT"], float(os.environ.get("PERTURB", "0"))
    recorder = difftest.record(model, optimizer, out=out, perturb=perturb, every=every) if out else None
    times = []
    for step in range(steps):
        began = time.perf_counter()
        inputs, targets = (part.to(place) for part in batch(step))
        with torch.autocast(place.type, torch.bfloat16, enabled=precision == "bf16"):
            _, loss = model(inputs, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if recorder:
            recorder.step()
        sync()
        times.append(time.perf_counter() - began)
    if recorder:
        recorder.close()
    if result := os.environ.get("RESULT"):
        np.savez(result, *[parameter.detach().cpu().numpy() for parameter in model.parameters()])
    later = times[len(times) // 2 :]
    mean = sum(later) / len(later)
    sys.stdout.write(f"{device} {precision}: {mean:.4f} s a step, recording {bool(recorder)}\n")


if __name__ == "__main__":
    main()
