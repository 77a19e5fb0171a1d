"""`difftest passes` in real runs: what it names of XLA itself, with JAX."""

import json
import re
from pathlib import Path

import pytest
from command_line import command
from installed_packages import needs

pytestmark = [pytest.mark.slow, pytest.mark.optimised]
needs("jax")

from pass_programs import EDITS, SCRIPT, edited  # noqa: E402

from difftest.jobs.filing.pass_runs import PassRun, run_passes  # noqa: E402
from difftest.passes.guilty import judge  # noqa: E402
from difftest.passes.module_runs import ModuleRun  # noqa: E402

SLICES = """HloModule slices

ENTRY %main (x: f32[4], i: s32[], j: s32[]) -> f32[1] {
  %x = f32[4]{0} parameter(0)
  %i = s32[] parameter(1)
  %j = s32[] parameter(2)
  %cut = f32[2]{0} dynamic-slice(%x, %i), dynamic_slice_sizes={2}
  ROOT %one = f32[1]{0} dynamic-slice(%cut, %j), dynamic_slice_sizes={1}
}
"""


def test_a_module_of_two_slices_names_algsimp_and_both_texts(tmp_path: Path) -> None:
    file = tmp_path / "slices.txt"
    file.write_text(SLICES)
    out = tmp_path / "out"
    result = command("passes", file, "--json", "--out", out)
    made = json.loads(result.output[result.output.index("{") :])
    assert result.status == 0
    assert (made["kind"], made["pass"]) == ("pass", "algsimp")
    assert {each.name for each in out.iterdir()} == {"before_pass.hlo.txt", "after_pass.hlo.txt"}
    assert " add(" not in (out / "before_pass.hlo.txt").read_text()
    assert " add(" in (out / "after_pass.hlo.txt").read_text()


def test_a_script_whose_own_numbers_are_wrong_accuses_no_pass(tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text("import jax\nprint(jax.jit(lambda x: x - x + 3)(1.0), 'expected 2')\n")
    result = command("passes", file, "--json")
    assert result.status == 1
    assert json.loads(result.output[result.output.index("{") :])["kind"] == "frontend"


@pytest.fixture(scope="module")
def run() -> PassRun:
    made = run_passes(SCRIPT)
    assert made.status == 0
    return made


@pytest.mark.nightly
def test_twenty_programs_that_are_right_accuse_nobody(run: PassRun) -> None:
    dumps = [dump for dump in run.dumps if run.calls_of(dump)]
    verdicts = {
        dump.name: judge(dump, [ModuleRun(arguments=run.calls_of(dump)[0].arguments)]) for dump in dumps
    }
    wanted = {*re.findall(r"^def (\w+)\(x, w\)", SCRIPT, re.MULTILINE)} - {"loss"}
    named = {name: each for name, each in verdicts.items() if _program(name) in wanted}
    assert len(wanted) >= 20
    assert {*map(_program, named)} == wanted
    assert {name: each.reason for name, each in named.items() if each.kind != "frontend"} == {}
    assert all(each.evaluated == each.snapshots for each in named.values())


@pytest.mark.nightly
@pytest.mark.parametrize("name", EDITS)
def test_an_edit_between_two_passes_is_named(run: PassRun, name: str) -> None:
    dump = next(each for each in run.dumps if _program(each.name) == name)
    verdict = judge(edited(dump, name), [ModuleRun(arguments=run.calls_of(dump)[0].arguments)])
    assert (verdict.kind, verdict.guilty) == ("pass", EDITS[name][0])


def _program(name: str) -> str:
    return name.partition(".jit_")[2]
