"""A language model of one device whose attention is `sdpa`, `flex` or `ring`, as the variable ATTENTION says.

`flex` compiles `flex_attention`, and `ring` is `context_parallel`, under torchrun on as many ranks as share
the sequence. DEVICE is `cuda` or `cpu`; OUT is the folder of the recording.
"""

import os
import sys
from contextlib import nullcontext
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.experimental import context_parallel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import difftest

SEQUENCE, WIDTH, HEADS, WORDS, BATCH = 256, 128, 4, 97, 4
device, attention = os.environ["DEVICE"], os.environ.get("ATTENTION", "sdpa")
dtype = torch.bfloat16 if os.environ.get("PRECISION") == "bf16" else torch.float32
steps = int(os.environ.get("STEPS", "4"))


def causal(batch, head, query, key):
    return query >= key


def flex(query, key, value):
    mask = create_block_mask(causal, None, None, query.shape[2], key.shape[2], device=query.device)
    attend = torch.compile(flex_attention) if query.is_cuda else flex_attention
    return attend(query, key, value, block_mask=mask)


def sdpa(query, key, value):
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, hidden):
        parts = self.qkv(self.before(hidden)).chunk(3, dim=-1)
        heads = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts)
        attended = (flex if attention == "flex" else sdpa)(*heads)
        hidden = hidden + self.out(attended.transpose(1, 2).flatten(-2))
        return hidden + self.mlp(self.after(hidden))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(SEQUENCE, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, words, places, targets):
        hidden = self.words(words) + self.places(places)
        for block in self.blocks:
            hidden = block(hidden)
        return F.cross_entropy(self.head(self.norm(hidden)).flatten(0, 1), targets.flatten())


def shared_by_ranks(buffers):
    """The context in which the ranks share the sequence; none for other kinds of attention."""
    if attention != "ring":
        return nullcontext()
    mesh = init_device_mesh(device, (dist.get_world_size(),), mesh_dim_names=("cp",))
    return context_parallel(mesh, buffers=buffers, buffer_seq_dims=[1] * len(buffers))


def main():
    torch.manual_seed(7)
    if attention == "ring":
        dist.init_process_group("nccl" if device == "cuda" else "gloo", timeout=timedelta(seconds=60))
    model = Model().to(device, dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    recorder = difftest.record(
        model, optimizer, out=os.environ["OUT"], perturb=float(os.environ.get("PERTURB", "0"))
    )
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        text = torch.randint(WORDS, (BATCH, SEQUENCE + 1), generator=generator).to(device)
        places = torch.arange(SEQUENCE, device=device).expand(BATCH, -1).contiguous()
        buffers = [text[:, :-1].contiguous(), places, text[:, 1:].contiguous()]
        with shared_by_ranks(buffers):
            loss = model(*buffers)
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        recorder.step()
        sys.stdout.write(f"{device} {attention} step {step}: {loss.item():.6f}\n")
    recorder.close()


if __name__ == "__main__":
    main()
