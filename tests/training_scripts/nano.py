"""A script in nanoGPT's form: one file, a GPT, DDP, gradient accumulation. Three lines record it."""

import math
import os
from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed import destroy_process_group, init_process_group
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.nn.parallel import DistributedDataParallel as DDP

import difftest

# -----------------------------------------------------------------------------
out_dir = os.environ["OUT"]
max_iters = int(os.environ.get("STEPS", "3"))
gradient_accumulation_steps = int(os.environ.get("ACCUMULATION", "4"))
batch_size = int(os.environ.get("BATCH", "2"))
block_size, vocab_size, n_layer, n_head, n_embd = 16, 61, 2, 4, 32
dropout = float(os.environ.get("DROPOUT", "0"))
learning_rate, grad_clip = 1e-3, 1.0
CPU = torch.device("cpu")
seed, every = int(os.environ.get("SEED", "0")), int(os.environ.get("EVERY", "1"))
perturb = float(os.environ.get("PERTURB", "0"))
dtype = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}[
    os.environ.get("DTYPE", "float32")
]
autocast = torch.autocast("cpu", torch.bfloat16, enabled=bool(os.environ.get("AUTOCAST")))
# -----------------------------------------------------------------------------


class CausalSelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(n_embd, dim=2)
        q, k, v = (t.view(B, T, n_head, C // n_head).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout if self.training else 0, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_fc = nn.Linear(n_embd, 4 * n_embd)
        self.gelu = nn.GELU()
        self.c_proj = nn.Linear(4 * n_embd, n_embd)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.dropout(self.c_proj(self.gelu(self.c_fc(x))))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(n_embd), CausalSelfAttention()
        self.ln_2, self.mlp = nn.LayerNorm(n_embd), MLP()

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(vocab_size, n_embd),
                "wpe": nn.Embedding(block_size, n_embd),
                "h": nn.ModuleList([Block() for _ in range(n_layer)]),
                "ln_f": nn.LayerNorm(n_embd),
            }
        )
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
        self.transformer.wte.weight = self.lm_head.weight
        for name, p in self.named_parameters():
            if name.endswith("c_proj.weight"):
                nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * n_layer))

    def forward(self, idx, targets):
        pos = torch.arange(idx.size(1), device=idx.device)
        x = self.transformer.wte(idx) + self.transformer.wpe(pos)
        for block in self.transformer.h:
            x = block(x)
        logits = self.lm_head(self.transformer.ln_f(x))
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
        return logits, loss


def main(prepare=lambda model, step, rank: None):
    ddp = int(os.environ.get("RANK", -1)) != -1
    if ddp:
        init_process_group(backend="gloo")
        rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    else:
        rank, world_size = 0, 1
    assert gradient_accumulation_steps % world_size == 0
    micro_steps = gradient_accumulation_steps // world_size
    torch.manual_seed(1337 + seed)
    torch.set_num_threads(1)
    data = torch.randint(vocab_size, (4096,), generator=torch.Generator().manual_seed(7 + seed))

    def get_batch(step, micro):
        g = torch.Generator().manual_seed(1000 * step + micro * world_size + rank)
        ix = torch.randint(len(data) - block_size, (batch_size,), generator=g)
        x = torch.stack([data[i : i + block_size] for i in ix])
        y = torch.stack([data[i + 1 : i + 1 + block_size] for i in ix])
        return x, y

    model = raw_model = GPT().to(dtype)
    prepare(raw_model, 0, rank)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.95))
    if os.environ.get("COMPILE"):
        model = torch.compile(model)
    fsdp1 = os.environ.get("FSDP1", "")
    if fsdp1:
        names = fsdp1 == "names"
        model = FSDP(model, auto_wrap_policy=ModuleWrapPolicy({Block}), use_orig_params=names, device_id=CPU)
        optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.95))
    elif ddp:
        model = DDP(model)
    recorder = (
        difftest.record(model, optimizer, out=out_dir, perturb=perturb, every=every) if out_dir else None
    )
    for step in range(max_iters):
        for micro in range(micro_steps):
            last = micro == micro_steps - 1
            with model.no_sync() if ddp and not last else nullcontext():
                with autocast:
                    _, loss = model(*get_batch(step, micro))
                (loss / micro_steps).backward()
        if fsdp1:
            model.clip_grad_norm_(grad_clip)
        else:
            torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if recorder:
            recorder.step()
        prepare(raw_model, step + 1, rank)
    if recorder:
        recorder.close()
    if ddp:
        destroy_process_group()
    return [p.detach().clone() for p in raw_model.parameters()]


if __name__ == "__main__":
    main()
