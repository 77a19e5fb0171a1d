"""A small Mamba: a depthwise convolution and a selective scan, position by position."""

import torch
from torch import Tensor, nn
from torch.nn import functional

VOCABULARY, WIDTH, STATES, LENGTH = 16, 8, 4, 6


class Mixer(nn.Module):
    """(rows, positions, WIDTH) to the same."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.conv = nn.Conv1d(WIDTH, WIDTH, 3, padding=2, groups=WIDTH)
        self.selected, self.step = nn.Linear(WIDTH, 2 * STATES, bias=False), nn.Linear(WIDTH, WIDTH)
        self.decay = nn.Parameter(torch.arange(1.0, STATES + 1).log().repeat(WIDTH, 1))
        self.skip, self.outer = nn.Parameter(torch.ones(WIDTH)), nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The scan's outputs times a gate."""
        x, gate = self.inner(x).chunk(2, -1)
        x = functional.silu(self.conv(x.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))
        writes, reads = self.selected(x).chunk(2, -1)
        step = functional.softplus(self.step(x))
        state, outputs = torch.zeros_like(x[:, 0, :, None] * self.decay), []
        for at in range(x.shape[1]):
            kept = torch.exp(-step[:, at, :, None] * self.decay.exp())
            state = kept * state + step[:, at, :, None] * writes[:, at, None] * x[:, at, :, None]
            outputs.append((state * reads[:, at, None]).sum(-1))
        return self.outer((torch.stack(outputs, 1) + self.skip * x) * functional.silu(gate))


def build(seed: int) -> nn.Module:
    """An embedding, a mixer, and a head."""
    return nn.Sequential(
        nn.Embedding(VOCABULARY, WIDTH),
        Mixer(),
        nn.LayerNorm(WIDTH),
        nn.Linear(WIDTH, VOCABULARY),
    )


def batch(generator: torch.Generator, rows: int) -> tuple[Tensor, Tensor]:
    """Tokens, and the token after each."""
    tokens = torch.randint(0, VOCABULARY, (rows, LENGTH + 1), generator=generator)
    return tokens[:, :-1], tokens[:, 1:]
