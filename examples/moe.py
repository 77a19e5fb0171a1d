"""A mixture of experts: every token goes to its best two of four, by scattered weights."""

import torch
from torch import Tensor, nn
from torch.nn import functional

VOCABULARY, WIDTH, EXPERTS, CHOSEN, LENGTH = 16, 8, 4, 2, 6


class Experts(nn.Module):
    """(rows, positions, WIDTH) to the same; all experts compute, and the weights of most are zero."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.up = nn.Parameter(torch.randn(EXPERTS, WIDTH, 2 * WIDTH) / WIDTH**0.5)
        self.down = nn.Parameter(torch.randn(EXPERTS, 2 * WIDTH, WIDTH) / WIDTH**0.5)

    def forward(self, x: Tensor) -> Tensor:
        """The weighted sum of the chosen experts' outputs."""
        best, chosen = self.router(x).topk(CHOSEN, dim=-1)
        weights = torch.zeros_like(x[..., :1].expand(*x.shape[:-1], EXPERTS))
        weights = weights.scatter(-1, chosen, functional.softmax(best, dim=-1))
        hidden = functional.gelu(torch.einsum("rpw,ewh->rpeh", x, self.up))
        return torch.einsum("rpeh,ehw,rpe->rpw", hidden, self.down, weights)


def build(seed: int) -> nn.Module:
    """An embedding, a norm, experts, and a head."""
    return nn.Sequential(
        nn.Embedding(VOCABULARY, WIDTH), nn.LayerNorm(WIDTH), Experts(), nn.Linear(WIDTH, VOCABULARY)
    )


def batch(generator: torch.Generator, rows: int) -> tuple[Tensor, Tensor]:
    """Tokens, and the token after each."""
    tokens = torch.randint(0, VOCABULARY, (rows, LENGTH + 1), generator=generator)
    return tokens[:, :-1], tokens[:, 1:]
