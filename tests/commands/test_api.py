"""difftest from Python: what a campaign left is read, and the arguments are those of the command."""

import pydoc
import subprocess
import sys
from html import escape
from pathlib import Path

import pandas as pd
import pytest
from sample_findings import FINDING
from samples import a_case

import difftest
from difftest import api
from difftest.jobs.ask.request import CampaignRequest
from difftest.jobs.campaign.storage import Output
from difftest.records.corpus import CORPUS, Corpus


def test_what_a_campaign_left_is_loaded(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path / CORPUS)
    corpus.prepare()
    corpus.save(FINDING, a_case())
    result = difftest.load(tmp_path)
    assert [finding.fingerprint for finding in result.findings] == [FINDING.fingerprint]
    assert result.case(result.findings[0]) == a_case()


def test_a_result_is_shown_in_a_line_and_in_a_notebook_as_a_table(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path / CORPUS)
    corpus.prepare()
    corpus.save(FINDING, a_case())
    result = difftest.load(tmp_path)
    assert repr(result) == f"<difftest.Result of {str(tmp_path)!r}: 1 finding, 1 of them unknown>"
    shown = result._repr_html_()
    assert shown.count("<tr>") == 2
    assert f"<td>{FINDING.fingerprint}</td>" in shown
    assert escape(FINDING.divergence.detail) in shown


def test_the_table_of_a_result_is_the_campaigns(tmp_path: Path) -> None:
    Corpus(tmp_path / CORPUS).prepare()
    result = difftest.load(tmp_path)
    with pytest.raises(difftest.UsageError, match=r"has no table\.parquet"):
        result.table()
    pd.DataFrame({"case": ["a", "b"]}).to_parquet(tmp_path / "table.parquet")
    assert list(result.table()["case"]) == ["a", "b"]


def test_a_folder_without_a_campaign_is_refused(tmp_path: Path) -> None:
    with pytest.raises(difftest.UsageError, match="holds no findings"):
        difftest.load(tmp_path / "nothing")


def test_run_requests_what_the_command_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[CampaignRequest] = []

    def remembered(request: CampaignRequest, output: Output) -> int:
        requests.append(request)
        output.prepared_corpus()
        return 0

    monkeypatch.setattr(api, "run_campaign", remembered)
    result = difftest.run(out=tmp_path, cases=3, backends=["torch_ddp"], max_world_size=2)
    (request,) = requests
    assert (request.most_cases, request.backends, request.model) == (3, ("torch_ddp",), None)
    assert result.findings == ()
    difftest.run(out=tmp_path, backends="torch_ddp, xla_spmd", paths="data_parallel")
    assert requests[1].backends == ("torch_ddp", "xla_spmd")
    assert requests[1].paths == ("data_parallel",)


def test_importing_the_package_imports_nothing_else() -> None:
    program = (
        "import sys, difftest; print(sorted(name for name in sys.modules if name.startswith('difftest')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['difftest']"


def test_an_attribute_that_is_not_there_is_missed() -> None:
    with pytest.raises(AttributeError, match="no attribute 'walk'"):
        difftest.walk  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.long  # imports torch
def test_help_shows_what_the_api_gives_and_no_machinery() -> None:
    text = pydoc.plain(pydoc.render_doc(difftest))
    assert "__getattr__" not in text
    for name in ("run(", "load(", "record(", "compare("):
        assert f"    {name}" in text, name
