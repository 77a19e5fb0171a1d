"""A language model of recurrent layers: an LSTM, then a GRU."""

import torch
from torch import Tensor, nn

VOCABULARY, WIDTH, LENGTH = 16, 8, 5


class Recurrent(nn.Module):
    """Tokens (rows, positions) to (rows, positions, VOCABULARY)."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY)
        self.first, self.second = (
            nn.LSTM(WIDTH, WIDTH, batch_first=True),
            nn.GRU(WIDTH, WIDTH, batch_first=True),
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """The next token's logits."""
        x, _ = self.first(self.table(tokens))
        x, _ = self.second(x)
        return self.head(x)


def build(seed: int) -> nn.Module:
    """The model."""
    return Recurrent()


def batch(generator: torch.Generator, rows: int) -> tuple[Tensor, Tensor]:
    """Tokens, and the token after each."""
    tokens = torch.randint(0, VOCABULARY, (rows, LENGTH + 1), generator=generator)
    return tokens[:, :-1], tokens[:, 1:]
