"""The llama of `titan.py` in a pipeline: each rank has some layers, as torchtitan cuts models by hand."""

import copy
import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed import destroy_process_group, init_process_group
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B

import difftest
from training_scripts.titan import LENGTH, VOCABULARY, Transformer


class Part(nn.Module):
    """The layers of one stage, under the names that they have in the whole model."""

    def __init__(self, whole, index, stages):
        super().__init__()
        layers = list(whole.layers.items())
        size = len(layers) // stages
        if index == 0:
            self.tok_embeddings = whole.tok_embeddings
        self.layers = nn.ModuleDict(dict(layers[index * size : (index + 1) * size]))
        if index == stages - 1:
            self.norm, self.output = whole.norm, whole.output

    def forward(self, h):
        if hasattr(self, "tok_embeddings"):
            h = self.tok_embeddings(h)
        for layer in self.layers.values():
            h = layer(h)
        return self.output(self.norm(h)) if hasattr(self, "norm") else h


def loss_of(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def main(prepare=lambda model, step, rank: None):
    world, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
    own, micro = int(os.environ.get("STAGES", "1")), int(os.environ.get("MICRO", "4"))
    seed, every = int(os.environ.get("SEED", "0")), int(os.environ.get("EVERY", "1"))
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    whole = Transformer()
    prepare(whole, 0, rank)
    init_process_group("gloo")
    stages = own * world
    indices = [rank + world * number for number in range(own)]
    parts = [Part(copy.deepcopy(whole), index, stages) for index in indices]
    made = [
        PipelineStage(part, index, stages, torch.device("cpu"))
        for part, index in zip(parts, indices, strict=True)
    ]
    for stage in made:  # torch 2.9 first sends int64 and receives float32, which aborts gloo
        stage._get_init_p2p_neighbors_ops = list  # noqa: SLF001
    if own > 1:
        schedule = ScheduleInterleaved1F1B(made, micro, loss_fn=loss_of)
    else:
        kind = ScheduleGPipe if os.environ.get("GPIPE") else Schedule1F1B
        schedule = kind(made[0], micro, loss_fn=loss_of)
    optimizer = torch.optim.AdamW([p for part in parts for p in part.parameters()], lr=1e-3, foreach=True)
    out = os.environ["OUT"]
    recorder = difftest.record(parts, optimizer, out=out, every=every) if out else None
    for step in range(int(os.environ.get("STEPS", "3"))):
        tokens = torch.randint(
            VOCABULARY, (8, LENGTH + 1), generator=torch.Generator().manual_seed(1000 * seed + step)
        )
        losses = []
        given = (tokens[:, :-1].contiguous(),) if rank == 0 else ()
        target = {"target": tokens[:, 1:].contiguous(), "losses": losses} if rank == world - 1 else {}
        schedule.step(*given, **target)
        optimizer.step()
        optimizer.zero_grad()
        if recorder:
            recorder.step(torch.stack(losses).mean() if losses else None)
        for part in parts:
            prepare(part, step + 1, rank)
    if recorder:
        recorder.close()
    result = [p.detach() for part in parts for p in part.parameters()]
    destroy_process_group()
    return result


if __name__ == "__main__":
    main()
