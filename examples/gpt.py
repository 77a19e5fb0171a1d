"""A small GPT in the form of nanoGPT: its loss is its own, and embedding and head share a weight."""

import torch
from torch import Tensor, nn
from torch.nn import functional

VOCABULARY, LENGTH, HEADS, WIDTH = 32, 8, 2, 16


class Attention(nn.Module):
    """Causal attention of one packed projection, with the mask in a buffer."""

    mask: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.packed, self.output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.register_buffer("mask", torch.ones(LENGTH, LENGTH).tril())

    def forward(self, x: Tensor) -> Tensor:
        """(rows, positions, WIDTH) to the same."""
        rows, length, _ = x.shape
        parts = self.packed(x).split(WIDTH, dim=2)
        q, k, v = (one.view(rows, length, HEADS, WIDTH // HEADS).transpose(1, 2) for one in parts)
        scores = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        scores = scores.masked_fill(self.mask[:length, :length] == 0, float("-inf"))
        return self.output((scores.softmax(-1) @ v).transpose(1, 2).contiguous().view(x.shape))


class Block(nn.Module):
    """Attention and a network of two layers, each behind a norm and beside a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between, self.attention = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), Attention()
        self.network = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        """(rows, positions, WIDTH) to the same."""
        x = x + self.attention(self.before(x))
        return x + self.network(self.between(x))


class GPT(nn.Module):
    """Tokens to logits and, where targets are given, the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleDict({"first": Block(), "second": Block()})
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.tokens.weight = self.head.weight

    def forward(self, tokens: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Logits and the loss, in which a target of -1 is ignored."""
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks.values():
            x = block(x)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits, None
        return logits, functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)


def build(seed: int) -> nn.Module:
    """The model."""
    return GPT()


def batch(generator: torch.Generator, rows: int) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Tokens with the token after each, which the model is given too."""
    tokens = torch.randint(0, VOCABULARY, (rows, LENGTH + 1), generator=generator)
    return (tokens[:, :-1], tokens[:, 1:]), tokens[:, 1:]


def loss(outputs: tuple[Tensor, Tensor], _targets: Tensor) -> Tensor:
    """The model's own."""
    return outputs[1]
