"""The cases of known faults: the file, what a night draws of it, and how a tool collects them."""

import itertools
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from sample_findings import FINDING
from samples import a_case
from test_ledger_blocks import MEAN, of_block

from difftest.cases.case import Case
from difftest.cases.case_number import CaseNumber, Series
from difftest.findings import known_cases
from difftest.findings.faults import KNOWN, Example, known
from difftest.findings.known_cases import read_known_cases
from difftest.findings.ledger import LEDGER_FILE
from difftest.ground import plugins
from difftest.jobs.ask.case_source import Drawing
from difftest.jobs.ask.request import CampaignRequest
from difftest.jobs.campaign.generated_cases import generated_cases
from difftest.records.corpus import CORPUS, Corpus
from difftest.records.resume import CampaignRecord
from tools import known_cases as collecting

SEED = 20261126
PATHS = ("data_parallel", "operators")


def drawing(**options: bool) -> Drawing:
    return Drawing(seed=SEED, model=None, paths=PATHS, max_world_size=4, **options)


def test_every_known_case_is_readable_and_its_fault_is_in_the_ledger() -> None:
    named = {fault.name for fault in known() if fault.shows}
    every = read_known_cases()
    assert every
    assert {one.name for one in every} <= named
    assert {one.read().path for one in every} <= set(plugins.names("generators.paths"))


def test_the_known_cases_of_a_night_are_on_its_paths_and_not_too_large() -> None:
    chosen = [drawing(known_cases=True).case(number) for number in drawing(known_cases=True).known()]
    assert chosen
    assert {case.path for case in chosen} <= set(PATHS)
    assert max(case.world_size for case in chosen) <= 4
    assert not list(drawing().known())


def test_a_night_begins_with_the_known_cases_that_are_not_recorded() -> None:
    request = CampaignRequest(
        out=Path("results"),
        ledger=LEDGER_FILE,
        fail_on=("new",),
        seed=SEED,
        cases=2,
        paths=PATHS,
        max_world_size=4,
        twice_every=0,
        known_cases=True,
    )
    every = [(index, case.id) for index, case in generated_cases(request, CampaignRecord())]
    known = list(itertools.takewhile(lambda one: CaseNumber.of(one[0]).series == Series.KNOWN, every))
    assert [index for index, _ in known] == list(request.known())
    assert [index for index, _ in every[len(known) :]] == [0, 1]
    left = generated_cases(request, CampaignRecord(cases=set(known[1:])))
    assert [(index, case.id) for index, case in left] == [known[0], *every[len(known) :]]


def test_programs_come_first_and_those_of_as_many_ranks_beside_each_other() -> None:
    cases = known_cases.known_cases()
    kinds = [case.model.is_program for case in cases]
    assert kinds == sorted(kinds, reverse=True)
    programs = [(case.path, case.world_size) for case in cases if case.model.is_program]
    assert programs == sorted(programs)


def test_the_simplest_case_of_a_fault_is_collected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    faults, sizes = tmp_path / "known", {"vocabulary": 8, "classes": 4, "smoothing": 0.0}
    options: Any = sizes | {"weighted": False, "reduction": "mean", "ignored": True}
    block = of_block("cross_entropy", **options)
    corpus = Corpus(tmp_path / CORPUS)
    corpus.prepare()
    corpus.save(replace(FINDING, divergence=MEAN, fingerprint=MEAN.fingerprint), block)
    corpus.save(FINDING, a_case())
    fault = next(one for one in known() if one.issue.endswith("/185167"))
    text = (KNOWN / f"{fault.name}.toml").read_text().partition(collecting.EXAMPLE)[0]
    faults.mkdir()
    (faults / f"{fault.name}.toml").write_text(text)
    (faults / "other.toml").write_text(text.replace(fault.issue, f"{fault.issue}0"))

    def collected() -> list[Case]:
        collecting.main([tmp_path], faults)
        return [one.read() for one in read_known_cases(known(faults))]

    assert collected() == [block]
    assert capsys.readouterr().out == "1 case; without one:\n  other\n"
    simpler = msgspec.structs.replace(block, training=replace(block.training, steps=1), seed=1)
    collecting.write(faults / f"{fault.name}.toml", simpler)
    assert collected() == [simpler], "one that is not simpler replaces nothing"


def test_an_example_that_is_no_case_is_refused() -> None:
    fault = replace(known()[0], examples=(Example(case='{"schema": 2}'),))
    (one,) = read_known_cases((fault,))
    with pytest.raises(ValueError, match="missing"):
        one.read()
