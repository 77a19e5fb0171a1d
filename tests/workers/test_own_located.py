"""A fault in the attention of a user's module: found, blamed, and located at the attention."""

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from own_models import documented, own_case, written

from difftest.campaign.campaign import Campaign
from difftest.campaign.localise import place
from difftest.campaign.run import run
from difftest.cases.case import Case
from difftest.cases.model import Model
from difftest.ground import sources
from difftest.judge.outcome import Outcome
from difftest.records.corpus import Corpus
from workers import backends
from workers.isolate import sandbox

pytestmark = [pytest.mark.slow, pytest.mark.xla]

ATTENTION = """
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(8, 8) for _ in range(4))
    def forward(self, x):
        n = x.shape[1]
        late = torch.ones(n, n, device=x.device).triu(1).bool()
        rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
        late = late.roll({shift}, 1)
        scores = self.q(x) @ self.k(x).transpose(-1, -2)
        return self.o(scores.masked_fill(late, float("-inf")).softmax(-1) @ self.v(x))
class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.attention, self.head = nn.Embedding(16, 8), Attention(), nn.Linear(8, 16)
    def forward(self, tokens):
        x = self.embed(tokens)
        return self.head(x + self.attention(x))
"""
SHAPES = {
    "embed.weight": (16, 8),
    **{f"attention.{part}.weight": (8, 8) for part in "qkvo"},
    **{f"attention.{part}.bias": (8,) for part in "qkvo"},
    "head.weight": (16, 8),
    "head.bias": (16,),
}
MODULES = {
    "": "Tiny",
    "embed": "Embedding",
    "attention": "Attention",
    **{f"attention.{part}": "Linear" for part in "qkvo"},
    "head": "Linear",
}


def shifted_case(folder: Path, shift: str) -> Case:
    """A case of a module whose causal mask is off by `shift` columns, an expression that 0 makes correct."""
    plain = own_case(folder, parameters=SHAPES, modules=MODULES)
    head, _, tail = documented().partition("class Tiny")
    source = head + ATTENTION.format(shift=shift) + "def build" + tail.partition("def build")[2]
    assert plain.model.own
    digests = {"model.py": sources.digest(written(folder, source))}
    layer = msgspec.structs.replace(plain.model.own, files=digests)
    return msgspec.structs.replace(plain, model=Model(layers=(layer,)))


def execute(case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
    return sandbox.run(case, backend, options=options)


@pytest.mark.parametrize(
    ("shift", "backend", "blame"),
    [
        ("int(x.device.type == 'xla')", "xla_spmd", "xla backend fault"),
        pytest.param("rank", "torch_ddp", "torch sharding fault", marks=pytest.mark.nightly),
    ],
)
def test_an_off_by_one_in_attention_is_found_blamed_and_located(
    work: Path, tmp_path: Path, shift: str, backend: str, blame: str
) -> None:
    case = shifted_case(work, shift)
    corpus = Corpus(tmp_path / "corpus")
    corpus.prepare()
    both = {name: backends.load(name) for name in ("torch_ddp", "xla_spmd")}
    for _ in run(Campaign(name="own", backends=both, execute=execute, corpus=corpus), [(0, case)]):
        pass
    (finding,) = corpus.findings()
    assert (finding.divergence.backend, finding.blame) == (backend, blame)
    assert place(finding.located) == "module 0.attention (Attention) before its o (Linear)"
