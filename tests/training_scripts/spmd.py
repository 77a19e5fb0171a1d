"""The llama of `titan.py` on torch_xla SPMD: one process, `mark_sharding`, data over one axis of the
devices."""

import os

import numpy as np
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

import difftest
from training_scripts.titan import LENGTH, VOCABULARY, Transformer


def main(prepare=lambda model, step, rank: None):
    xr.use_spmd()
    devices = xr.global_runtime_device_count()
    tp = int(os.environ.get("TP", "1"))
    mesh = xs.Mesh(np.arange(devices), (devices // tp, tp), ("data", "model"))
    torch.manual_seed(0)
    model = Transformer()
    prepare(model, 0, 0)
    model = model.to(torch_xla.device())
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            column = name.endswith(("wo.weight", "w2.weight"))
            xs.mark_sharding(parameter, mesh, ("data", "model") if column else ("model", "data"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    out = os.environ["OUT"]
    recorder = difftest.record(model, optimizer, out=out) if out else None
    for step in range(int(os.environ.get("STEPS", "3"))):
        tokens = torch.randint(VOCABULARY, (8, LENGTH + 1), generator=torch.Generator().manual_seed(step))
        inputs, labels = (
            part.contiguous().to(torch_xla.device()) for part in (tokens[:, :-1], tokens[:, 1:])
        )
        xs.mark_sharding(inputs, mesh, ("data", None))
        xs.mark_sharding(labels, mesh, ("data", None))
        logits = model(inputs)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        torch_xla.sync()
        if recorder:
            recorder.step(loss)
        prepare(model, step + 1, 0)
    if recorder:
        recorder.close()
    return [p.detach().cpu() for p in model.parameters()]


if __name__ == "__main__":
    main()
