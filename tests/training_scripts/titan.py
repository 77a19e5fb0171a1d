"""A script in torchtitan's form: a llama, FSDP2 over tensor parallelism, activation checkpointing."""

import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed import destroy_process_group, init_process_group
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

import difftest

DIM, HEADS, VOCABULARY, LENGTH = 32, 4, 64, 16


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq, self.wk, self.wv = (nn.Linear(DIM, DIM, bias=False) for _ in range(3))
        self.wo = nn.Linear(DIM, DIM, bias=False)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (
            w(x).view(batch, length, -1, DIM // HEADS).transpose(1, 2) for w in (self.wq, self.wk, self.wv)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(batch, length, -1))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.w3 = (nn.Linear(DIM, 48, bias=False) for _ in range(2))
        self.w2 = nn.Linear(48, DIM, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class TransformerBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.attention = nn.RMSNorm(DIM), Attention()
        self.ffn_norm, self.feed_forward = nn.RMSNorm(DIM), FeedForward()

    def forward(self, x):
        h = x + self.attention(self.attention_norm(x))
        return h + self.feed_forward(self.ffn_norm(h))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        layers = int(os.environ.get("LAYERS", "2"))
        self.tok_embeddings = nn.Embedding(VOCABULARY, DIM)
        self.layers = nn.ModuleDict({str(index): TransformerBlock() for index in range(layers)})
        self.norm = nn.RMSNorm(DIM)
        self.output = nn.Linear(DIM, VOCABULARY, bias=False)

    def forward(self, tokens):
        h = self.tok_embeddings(tokens)
        for layer in self.layers.values():
            h = layer(h)
        return self.output(self.norm(h))


def apply_tp(model, mesh):
    plan = {
        "tok_embeddings": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "norm": SequenceParallel(),
        "output": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
    }
    parallelize_module(model, mesh, plan)
    for layer in model.layers.values():
        plan = {
            "attention_norm": SequenceParallel(),
            "attention": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
            "attention.wq": ColwiseParallel(),
            "attention.wk": ColwiseParallel(),
            "attention.wv": ColwiseParallel(),
            "attention.wo": RowwiseParallel(output_layouts=Shard(1)),
            "ffn_norm": SequenceParallel(),
            "feed_forward": PrepareModuleInput(
                input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)
            ),
            "feed_forward.w1": ColwiseParallel(),
            "feed_forward.w3": ColwiseParallel(),
            "feed_forward.w2": RowwiseParallel(output_layouts=Shard(1)),
        }
        parallelize_module(layer, mesh, plan)


def main(prepare=lambda model, step, rank: None):
    world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    tp = int(os.environ.get("TP", "1"))
    seed, every = int(os.environ.get("SEED", "0")), int(os.environ.get("EVERY", "1"))
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    model = Transformer()
    prepare(model, 0, rank)
    place = 0
    if world > 1:
        init_process_group("gloo")
        mesh = init_device_mesh("cpu", (world // tp, tp), mesh_dim_names=("dp_shard", "tp"))
        place = mesh["dp_shard"].get_local_rank()
        if tp > 1:
            apply_tp(model, mesh["tp"])
    if os.environ.get("CHECKPOINT"):
        for name, layer in model.layers.items():
            model.layers[name] = checkpoint_wrapper(layer)
    if world // tp > 1:
        for layer in model.layers.values():
            fully_shard(layer, mesh=mesh["dp_shard"])
        fully_shard(model, mesh=mesh["dp_shard"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=float(os.environ.get("LR", "1e-3")), foreach=True)
    out = os.environ["OUT"]
    perturb = float(os.environ.get("PERTURB", "0"))
    recorder = difftest.record(model, optimizer, out=out, perturb=perturb, every=every) if out else None
    rows = 8 // max(1, world // tp)
    for step in range(int(os.environ.get("STEPS", "3"))):
        tokens = torch.randint(
            VOCABULARY, (8, LENGTH + 1), generator=torch.Generator().manual_seed(1000 * seed + step)
        )
        tokens = tokens[place * rows : (place + 1) * rows]
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        if not os.environ.get("NO_CLIP"):
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if recorder:
            recorder.step(loss)
        prepare(model, step + 1, rank)
    if recorder:
        recorder.close()
    result = [getattr(p, "full_tensor", lambda p=p: p)().detach() for p in model.parameters()]
    if world > 1:
        destroy_process_group()
    return result


if __name__ == "__main__":
    main()
