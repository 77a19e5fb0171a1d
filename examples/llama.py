"""A small Llama: RMSNorm, rotary positions, grouped queries, SwiGLU."""

import torch
from torch import Tensor, nn
from torch.nn import functional

VOCABULARY, WIDTH, HEADS, KEY_HEADS, LENGTH = 32, 16, 4, 2, 8


def rotated(x: Tensor) -> Tensor:
    """(rows, heads, positions, width) with rotary positions, computed in float32 as usual."""
    half = x.shape[-1] // 2
    frequencies = 10000.0 ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angles = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32)[:, None] * frequencies
    first, second = x.float().chunk(2, -1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1).to(x.dtype)


class Attention(nn.Module):
    """Causal attention in which two heads of queries share one of keys and values."""

    def __init__(self) -> None:
        super().__init__()
        size = WIDTH // HEADS
        self.q, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(WIDTH, KEY_HEADS * size, bias=False) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """(rows, positions, WIDTH) to the same."""
        q, k, v = (p(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for p in (self.q, self.k, self.v))
        k, v = (one.repeat_interleave(HEADS // KEY_HEADS, 1) for one in (rotated(k), v))
        mixed = functional.scaled_dot_product_attention(rotated(q), k, v, is_causal=True)
        return self.o(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Attention and SwiGLU, each behind a norm and beside a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.attention, self.between = nn.RMSNorm(WIDTH), Attention(), nn.RMSNorm(WIDTH)
        self.gate, self.up = (nn.Linear(WIDTH, 2 * WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(rows, positions, WIDTH) to the same."""
        x = x + self.attention(self.before(x))
        y = self.between(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


def build(seed: int) -> nn.Module:
    """Two blocks between an embedding and a head that shares its weight."""
    model = nn.Sequential(
        nn.Embedding(VOCABULARY, WIDTH),
        Block(),
        Block(),
        nn.RMSNorm(WIDTH),
        nn.Linear(WIDTH, VOCABULARY, bias=False),
    )
    model[0].weight.data.mul_(0.25)
    model[4].weight = model[0].weight
    return model


def batch(generator: torch.Generator, rows: int) -> tuple[Tensor, Tensor]:
    """Tokens, and the token after each."""
    tokens = torch.randint(0, VOCABULARY, (rows, LENGTH + 1), generator=generator)
    return tokens[:, :-1], tokens[:, 1:]
