"""The blind share: in which part of the cases an entry of the ledger would hide whatever else goes wrong."""

import itertools
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from command_line import command
from generated_cases import GeneratedCases
from msgspec.structs import replace
from sample_findings import a_corpus, an_observation
from sample_programs import a_program, an_operator
from samples import DEEP, a_case

from difftest.cases.case import Case, Training
from difftest.findings.blind import MOST, blind_places, blind_shares
from difftest.findings.ledger import Entry, Ledger, read_ledger
from difftest.judge.damage import NOT_UPDATED
from generators.cases import case_at, pool_at
from reports.page import compared
from reports.report import build
from workers.backends import all_backends, candidates

TODAY = date(2026, 11, 27)
ENTRY = Entry(fingerprint="xla_spmd-*-mismatch-*", upstream="u", reason="r", expires=TODAY)
CASE = a_case(DEEP, training=Training(steps=2))
COUNT = 250


def shares(**changes: object) -> dict[str, float]:
    """What one entry hides in a case with three parameters and two steps, by check."""
    ledger = Ledger(entries=(replace(ENTRY, **changes),))
    return {
        check: share
        for check, share in blind_places(ledger, CASE, ("xla_spmd",), TODAY)["xla_spmd"].items()
        if share
    }


@pytest.mark.parametrize(
    ("changes", "hidden"),
    [
        ({}, {"gradients": 1.0, "loss": 1.0, "parameters": 1.0, "replicas": 1.0}),
        ({"fingerprint": "xla_*-gradients-mismatch-*"}, {"gradients": 1.0}),
        ({"where": {"clipping": "off"}, "fingerprint": "*-loss-*"}, {"loss": 1.0}),
        ({"where": {"clipping": "on"}}, {}),
        ({"fingerprint": "torch_*-mismatch-*"}, {}),
        ({"fingerprint": "xla_spmd-loss-mismatch-0123abcd"}, {}),
        ({"what": {"stage": "update"}}, {"parameters": 1.0, "replicas": 1.0}),
        ({"what": {"step": "1", "stage": "backward"}}, {"gradients": 0.5, "replicas": 0.5}),
        ({"what": {"stage": "backward", "tensor": "0.weight"}}, {"gradients": 1 / 3, "replicas": 1 / 3}),
        ({"what": {"stage": "forward", "tensor": "output"}}, {"loss": 0.5}),
        ({"what": {"differing": "1 / 6"}}, {}),
        ({"what": {"greatest": "*e-[01][0-9]"}}, {}),
        ({"nature": "after the first step", "fingerprint": "*-gradients-*"}, {}),
        ({"nature": f"{NOT_UPDATED}*"}, {}),
        ({"predicts": "unreduced"}, {}),
        ({"decided_by": "spelling.integers=True"}, {}),
    ],
)
def test_an_entry_hides_the_places_in_which_it_matches_every_damage(
    changes: dict[str, object], hidden: dict[str, float]
) -> None:
    assert shares(**changes) == pytest.approx(hidden)


def test_two_entries_hide_together_what_none_hides_alone() -> None:
    of_loss = replace(ENTRY, fingerprint="*-loss-*")
    small, great = (replace(of_loss, what={"differing": size}) for size in ("1 / 6", "6 / 6"))
    for entries, share in (((small,), 0.0), ((great,), 0.0), ((small, great), 1.0)):
        assert blind_places(Ledger(entries=entries), CASE, ("xla_spmd",), TODAY)["xla_spmd"]["loss"] == share


def test_an_expired_entry_hides_nothing() -> None:
    later = blind_places(Ledger(entries=(ENTRY,)), CASE, ("xla_spmd",), date(2026, 11, 28))
    assert not any(later["xla_spmd"].values())


@pytest.mark.parametrize(
    ("changes", "hidden"),
    [
        ({}, {"gradients": 1.0, "loss": 1.0, "parameters": 1.0, "replicas": 1.0}),
        ({"operators": ("add",)}, {"gradients": 0.5, "loss": 0.5, "parameters": 0.5, "replicas": 0.5}),
        ({"operators": ("nn.functional.elu",), "fingerprint": "*-gradients-*"}, {"gradients": 0.5}),
        ({"operators": ("mul",)}, {}),
        ({"operators": ("add",), "nature": "add, negated*"}, {}),
        ({"where": {"program": "* nn.functional.elu *"}, "fingerprint": "*-loss-*"}, {"loss": 1.0}),
        ({"operators": ("add",), "predicts": "rounded_near_one"}, {}),
    ],
)
def test_an_entry_about_an_operator_hides_the_tensors_of_that_operator(
    changes: dict[str, object], hidden: dict[str, float]
) -> None:
    ledger = Ledger(entries=(replace(ENTRY, **changes),))
    program = a_program(an_operator("add"), an_operator("nn.ELU"))
    shares = blind_places(ledger, program, ("xla_spmd",), TODAY)["xla_spmd"]
    assert {check: share for check, share in shares.items() if share} == pytest.approx(hidden)


def test_the_share_of_many_cases_is_the_mean_over_those_that_a_backend_runs() -> None:
    clipped = a_case(training=Training(clip_norm=1.0))
    ledger = Ledger(entries=(replace(ENTRY, fingerprint="xla_*-loss-*", where={"clipping": "on"}),))
    both, alone = ("xla_ddp", "xla_spmd"), ("xla_spmd",)
    rows = blind_shares(ledger, [(clipped, both), (CASE, both), (CASE, alone)], TODAY).rows()
    assert [(row.backend, row.check, round(row.share, 3), row.cases) for row in rows if row.share] == [
        ("xla_ddp", "loss", 0.5, 2),
        ("xla_spmd", "loss", 0.333, 3),
    ]


@pytest.mark.long
def test_the_projects_ledger_hides_little_of_any_backend_and_check(generated_cases: GeneratedCases) -> None:
    drawn = [case for hundred in generated_cases.hundreds(0, 1, 2) for case in hundred][:COUNT]
    backends = all_backends()
    able = [(case, [name for name, one in backends.items() if not one.unsupported(case)]) for case in drawn]
    rows = blind_shares(read_ledger(), able, TODAY).rows()
    assert {row.backend for row in rows} == {name for _, names in able for name in names}
    assert len({row.backend for row in rows}) > len(candidates())
    assert {row.words for row in rows if row.share > MOST} == set()


PROGRAMS = ("modules", "operators")
"""The paths whose cases go through a list of operators. On the others a case is chosen from several draws."""

UNEVEN = ("pipelines", *PROGRAMS)
"""The paths whose cases differ so much that the share of `MOST` holds for a thousand of them, at night."""


def cases_of(path: str) -> Iterator[Case]:
    """The cases of a path, and of most paths those too that were drawn and not chosen."""
    for index in itertools.count():
        yield from [case_at(5, index, paths=(path,))] if path in PROGRAMS else pool_at(5, index, path=path)


@pytest.mark.long
@pytest.mark.parametrize(
    ("path", "count", "most"),
    [
        *(
            (path, COUNT, MOST)
            for path in ("blocks", "features", "wrappers", "regions", "collective_layouts")
        ),
        *((path, COUNT, 2 * MOST) for path in UNEVEN),
        *(pytest.param(path, 1000, MOST, marks=(pytest.mark.slow, pytest.mark.nightly)) for path in UNEVEN),
    ],
)
def test_the_projects_ledger_hides_little_on_the_paths_that_must_be_named(
    path: str, count: int, most: float
) -> None:
    backends = all_backends()
    drawn = itertools.islice(cases_of(path), count)
    able = ((case, [name for name, one in backends.items() if not one.unsupported(case)]) for case in drawn)
    rows = blind_shares(read_ledger(), able, TODAY).rows()
    assert {row.words for row in rows if row.share > most} == set()


def test_the_command_prints_the_shares_and_fails_where_one_is_too_great(
    tmp_path: Path,
) -> None:
    ledger = tmp_path / "known.toml"
    ledger.write_text(
        '[[known]]\nfingerprint = "xla_*-*"\nupstream = "u"\nreason = "r"\nexpires = 2999-01-01\n'
    )
    wanted = ["blind", "--cases", "2", "--paths", "data_parallel"]
    wide = command(*wanted, "--known", ledger)
    assert wide.status == 1
    assert "100.0 % of 2 cases on xla_spmd, loss" in wide.output
    ledger.write_text("")
    narrow = command(*wanted, "--known", ledger)
    assert (narrow.status, narrow.output.partition(" pairs")[0]) == (0, "0 of 64")


def test_a_page_says_how_much_the_known_faults_hide_from_its_own_cases(tmp_path: Path) -> None:
    blind = {"gradients": 0.0, "loss": 0.5}
    lines = (an_observation(0, blind=blind), an_observation(1, blind={"gradients": 0.0, "loss": 0.0}))
    a_corpus(tmp_path, *lines)
    report = build(tmp_path)
    name = report.spoken(lines[0].backend)
    assert compared.blind(report) == (
        f"Whatever is wrong counts as a known fault in at most 25.0 % of 2 cases ({name}, loss)."
    )
    listed = command("coverage", tmp_path)
    assert f"25.0 % of 2 cases on {lines[0].backend}, loss" in listed.output
    a_corpus(tmp_path / "none", an_observation(0, blind={"loss": 0.0}))
    assert compared.blind(build(tmp_path / "none")) == compared.ALL_SHOWN
    a_corpus(tmp_path / "before", an_observation(0))
    assert not compared.blind(build(tmp_path / "before"))
