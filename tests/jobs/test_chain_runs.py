"""The chain in real processes: from a fault of the pinned releases to a draft with a short script."""

import ast
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from installed_packages import skip_without
from sample_programs import a_program, an_operator
from samples import DEEP, a_case

from difftest.campaign.campaign import Campaign
from difftest.campaign.run import run as run_campaign
from difftest.cases.case import Case, Data, Training
from difftest.cases.layers.operator import Operand
from difftest.cases.layout import Shard
from difftest.findings.ledger import Ledger
from difftest.jobs.ask.targets import FindingTarget
from difftest.jobs.filing.chain import DraftChain, own_alone
from difftest.jobs.filing.script_runs import run_script
from difftest.records.corpus import DRAFT, SCRIPT, Corpus
from reports.draft import readable
from workers.backends import candidates
from workers.cluster import environments
from workers.isolate import sandbox

MOST_LINES = 40
OURS = {"difftest", "generators", "workers", "reports"}
UNEVEN_MEAN = a_program(
    an_operator("mean", operands={"input": Operand(shape=(5, 3))}), sharded={"0.input": (Shard(0),)}
)
SENTENCES = "two sentences"
FORMS = (["# ", "##", SENTENCES], ["# ", SENTENCES])
"""The first lines on each tracker: the title, the form's heading, two sentences."""

needs_xla = skip_without("torch_xla")


def a_campaign(root: Path, backend: str) -> Campaign:
    corpus = Corpus(root / "corpus")
    corpus.prepare()
    return Campaign(
        name="one",
        backends=dict(candidates((backend,))),
        execute=lambda case, name, options: sandbox.run(case, name, options=options),
        corpus=corpus,
    )


def names_imported(script: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(script)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.slow
@pytest.mark.nightly
@needs_xla
@pytest.mark.parametrize(
    ("case", "backend"),
    [
        (a_case(training=Training(loss="cross_entropy"), fed=Data(batch=3)), "xla_spmd"),
        (a_case(DEEP), "xla_dtensor"),
        (a_case(DEEP, training=Training(clip_norm=0.25)), "torch_dtensor"),
        (UNEVEN_MEAN, "torch_dtensor"),
        (UNEVEN_MEAN, "torch_dtensor@other"),
    ],
    ids=["crash", "exception", "numbers", "operator", "other environment"],
)
def test_a_fault_becomes_a_draft_with_a_short_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: Case, backend: str
) -> None:
    """The project's ledger knows these faults; here they count as new. The other environment is this one."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    other = tmp_path / "environments.toml"
    other.write_text(f'[[environment]]\nbackends = "*@other"\npython = "{sys.executable}"\n')
    monkeypatch.setenv(environments.VARIABLE, str(other))
    campaign = a_campaign(tmp_path, backend)
    (progress,) = run_campaign(campaign, [(0, case)])
    assert progress.new
    folder = campaign.corpus.root / campaign.corpus.fingerprints()[0]

    @contextmanager
    def machine(_subject: FindingTarget) -> Iterator[Campaign]:
        yield campaign

    made = DraftChain(
        machine=machine, say=lambda _: None, budget=15, ledger=Ledger(), most_a_day=5, consent=own_alone
    )
    issue = made.advance(folder)
    assert issue.reason is None
    script, text = (folder / SCRIPT).read_text(), (folder / DRAFT).read_text()
    assert script.count("\n") <= MOST_LINES, script
    printed = readable.script(script)
    head, _, rest = text.partition("```python")
    if issue.tracker == "openxla":
        assert head.splitlines()[2].startswith("`Check failed: "), head
        assert "import jaxlib" in rest.partition("```")[0]
    else:
        assert f"```python\n{printed}```" in text
        sentences = re.compile(r"^[^#].* \(mesh .* with torch 2.*Expected .*\.$", re.MULTILINE)
        lines = sentences.sub(SENTENCES, head).splitlines()
        form = [line if line == SENTENCES else line[:2] for line in lines if line]
        assert form[: form.index(SENTENCES) + 1] in FORMS, head
    imported = {name.partition(".")[0] for name in names_imported(script)}
    assert not OURS & imported
    assert not re.search(r"\bother\b", head), "of the environment"
    assert run_script(script).shown
