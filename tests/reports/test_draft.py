"""Issue drafts of made-up findings: their tracker, their content, and refusals."""

import os
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from own_models import own_case
from sample_findings import a_measurement, changed, finding_of
from samples import a_case
from sentences import replaced

from difftest.commands.draft import command
from difftest.findings.titles import title
from difftest.ground import installed
from difftest.jobs.ask.options import MOST_A_DAY, TRACKERS
from difftest.jobs.filing import draft
from difftest.judge.blame import layer
from difftest.judge.outcome import Symptom
from difftest.judge.stage import Stage
from difftest.records.corpus import SCRIPT, Corpus
from difftest.records.evidence import GUILTY_PASS, NO_PASS
from difftest.records.finding import Finding
from difftest.records.reduced_run import ReducedRun
from reports.draft.draft import Draft
from reports.draft.markup import fenced
from reports.draft.rendering import render
from reports.draft.reportable import refusal, releases_of, tracker
from reports.tracebacks import last_line, without_own_frames

CHECK_FAILED = "F external/xla/xla/service/spmd/spmd_partitioner_util.h:127] Check failed: IsScalar(x)"
MEASURED = a_measurement(
    2.5e7,
    stage="update",
    tensor="0.weight",
    step=1,
    elements=8,
    differing=3,
    error=0.25,
    greatest=0.5,
    scale=1.5,
    floor=2e-8,
    other_error=3e-8,
)


def a_finding(**changes: Any) -> Finding:  # noqa: ANN401
    fields: dict[str, Any] = {
        "fingerprint": "torch_dtensor-parameters-mismatch-0a1b2c3d",
        "symptom": Symptom.MISMATCH,
        "stage": Stage.UPDATE,
        "step": 1,
        "tensor": "0.weight",
        "backend": "torch_dtensor",
        "side": "torch",
        "path": "data_parallel",
        "check": "parameters",
        "blame": "torch sharding fault",
        "hits": 3,
        "case": a_case().id,
        "ratio": 2.5e7,
        "evidence": {
            "single": "agrees",
            "other": "agrees",
            "other_single": "no telling",
            "disappears when": "clip_norm is None",
        },
        "detail": "step 1, update, 0.weight: 3 / 8 elements differ",
        "stable": (2, 2),
        "environment": {"torch": "2.9.0", "device": "cpu"},
        "first_seen": "2026-11-20T10:00:00+00:00",
        "last_seen": "2026-11-21T10:00:00+00:00",
        "conditions": ("clip_norm=0.25",),
    }
    return finding_of(**{**fields, **changes})


def a_crash(**changes: Any) -> Finding:  # noqa: ANN401
    fields = {
        "backend": "xla_spmd",
        "side": "xla",
        "symptom": Symptom.CRASH,
        "check": "completion",
        "ratio": None,
        "tensor": "",
    }
    return changed(
        a_finding(), **{**fields, "detail": f"step 0, backward, rank 0: SIGABRT: {CHECK_FAILED}", **changes}
    )


def drafted(finding: Finding, name: str, **more: Any) -> str:  # noqa: ANN401
    fields = {
        "releases": releases_of(finding),
        "reproducer": "import torch\n",
        "ran_here": True,
        "collected": "PyTorch version: 2.9.0",
        **more,
    }
    return render(Draft(finding=finding, case=a_case(), **fields), name)


def refused(finding: Finding) -> str | None:
    return refusal(finding, releases_of(finding))


def test_every_tracker_has_a_template() -> None:
    folder = files("reports") / "templates" / "issues"
    assert {file.name for file in folder.iterdir() if not file.name.startswith("_")} == {
        f"{name}.md.jinja" for name in TRACKERS
    }


def test_the_tracker_depends_on_side_and_place() -> None:
    assert tracker(a_finding()) == "pytorch"
    assert tracker(a_finding(side="xla", backend="xla_ddp")) == "xla"
    assert tracker(a_crash()) == "openxla"
    assert tracker(a_crash(detail="step 0, backward, rank 0: SIGSEGV: ")) == "xla"


WARNING = (
    "2026-11-22 10:11:48.463259: W external/xla/xla/service/sharding_propagation.cc:3120] "
    "GSPMD is going to be deprecated"
)
FATAL = (
    "2026-11-22 10:22:24.007950: F external/xla/xla/literal.h:127] died",
    "F0000 00:00:1763806944.0 12 external/xla/xla/literal.h:127] died",
)


@pytest.mark.parametrize("line", FATAL)
def test_a_fatal_line_of_the_compiler_chooses_its_tracker_and_a_warning_does_not(line: str) -> None:
    message = "step 0, backward, rank 0: SIGSEGV: Fatal Python error: Segmentation fault"
    assert tracker(a_crash(detail=message, log=f"{WARNING}\n{line}\nnative frames")) == "openxla"
    assert tracker(a_crash(detail=message, log=f"{WARNING}\nnative frames")) == "xla"
    assert tracker(a_crash(detail=f"step 0, backward, rank 0: SIGSEGV: {WARNING}")) == "xla"
    assert (
        tracker(
            a_crash(
                detail=message, log="F0000 00:00:1763806944.0 12 torch_xla/init.cc:1] external/xla/x failed"
            )
        )
        == "xla"
    )


def test_wrong_numbers_go_to_the_compiler_only_when_they_persist_in_a_replay() -> None:
    assert tracker(a_finding(side="xla", evidence={"replayed": "diverges on jaxlib 0.10"})) == "openxla"
    assert tracker(a_finding(side="xla", evidence={"replayed": "agrees on jaxlib 0.10"})) == "xla"


def test_a_fault_that_two_frameworks_share_goes_to_the_compiler() -> None:
    alike, right = layer("xla", "torch_xla", [], ["torchax"]), layer("xla", "torch_xla", ["torchax"], [])
    assert tracker(a_finding(side="xla", evidence={"layer": alike})) == "openxla"
    assert tracker(a_finding(side="xla", evidence={"layer": right})) == "xla"
    assert (
        tracker(a_finding(side="torch", evidence={"layer": layer("torch", "torch", [], ["other"])}))
        == "pytorch"
    )


@pytest.mark.parametrize("name", ["openxla", "pytorch", "xla"])
def test_a_draft_has_everything_that_maintainers_request(name: str) -> None:
    versions = (("jaxlib", "0.7.1"), ("libtpu", "not installed"), ("PJRT device", "cpu"))
    text = drafted(
        a_finding(),
        name,
        of_original=MEASURED,
        reproducer="import torch\n",
        output="expected 1, actual 2\n",
        versions=versions,
    )
    wanted = (
        "torch sharding fault",
        "import torch",
        "expected 1, actual 2",
        "0.25",
        "3e-08",
        "2e-08",
        "0.0001",
        "clip\\_norm=0.25",
        "2 of 2",
    )
    evidence = (
        "| agrees | diverges |",
        "| undecided | agrees |",
        "disappears when",
        "jaxlib: 0.7.1",
        "libtpu",
        "PyTorch version: 2.9.0",
    )
    for part in (*wanted, *evidence, "2026-11-20", "2026-11-21"):
        assert part in text, part


@pytest.mark.parametrize("name", ["openxla", "pytorch", "xla"])
def test_the_title_of_a_draft_is_that_of_the_page(name: str) -> None:
    finding = a_finding(evidence={"decided_by": "replication.gradient_as_bucket_view=True"})
    called = {"torch_dtensor": "DTensor"}
    first, *_ = drafted(finding, name, called=called).splitlines()
    assert first == f"# {title(finding, called)}"
    assert first == "# DTensor: wrong 0.weight after the update with gradient_as_bucket_view=True"
    known, *_ = drafted(finding, name, called=called, reason="the update is applied twice").splitlines()
    assert known == "# DTensor: the update is applied twice"


def test_the_title_has_the_numbers_of_the_draft_s_own_run() -> None:
    told = "step 0, backward, rank 0: RuntimeError: shape '[{}]' is invalid"
    of_first = {"symptom": Symptom.EXCEPTION, "stage": Stage.BACKWARD, "ratio": None, "tensor": ""}
    finding = a_finding(**of_first, check="completion", detail=told.format(32))
    shown = replaced(finding.divergence, detail=told.format(10))
    again = msgspec.structs.replace(RERUN, divergence=shown, measurement=None)
    first, *_ = drafted(finding, "pytorch", run=again).splitlines()
    assert first.endswith("shape '[10]' is invalid")


def test_a_draft_has_no_private_names_of_backends() -> None:
    finding = a_finding(evidence={"wrong_siblings": "xla_annotated, torch_ddp"})
    text = drafted(finding, "xla", called={"xla_annotated": "DTensor's annotation", "torch_ddp": "DDP"})
    assert "| also wrong on | DTensor's annotation, DDP |" in text


def test_the_section_of_what_is_expected_does_not_say_so_again() -> None:
    assert "## Expected behavior\n\nThe result of eager torch on the CPU" in drafted(a_finding(), "xla")


def test_the_title_has_one_line_that_no_tracker_acts_on_or_refuses() -> None:
    detail = "step 0, forward, rank 0: ValueError: @everyone see #1 <b>`x`</b> " + "word " * 200
    finding = a_finding(symptom=Symptom.EXCEPTION, stage=Stage.FORWARD, ratio=None, detail=detail)
    first, *_ = drafted(finding, "xla").splitlines()
    assert first.startswith("# torch_dtensor: ValueError in the forward pass: everyone see 1 b x /b word")
    assert len(first) <= 256
    assert first.endswith(" word")


ABLATIONS = {
    "it runs on one device, unsharded": "disappears",
    "fast math is off": "disappears: a known benign cause, fast math reorders sums",
    "the dtype is bfloat16": "stays, 12.7 noise floors",
    "torch_ddp runs it": "changes: torch_ddp-completion-crash-00000000, SIGSEGV",
    "torch_tp runs it": "no telling: tensor parallelism needs the mesh axis tp",
}


@pytest.mark.parametrize("name", ["openxla", "pytorch", "xla"])
def test_a_draft_lists_the_ablations_and_the_first_wrong_module(name: str) -> None:
    text = drafted(a_finding(ablations=ABLATIONS, located=("forward, step 0: module 1 (RMSNorm)",)), name)
    begun = "* With one thing changed at a time: "
    answers = [line.removeprefix(begun) for line in text.splitlines() if line.startswith(begun)]
    assert [line.partition(" when ")[0] for line in answers] == [
        "disappears",
        "stays",
        "changes",
        "undecided",
    ]
    assert answers[0].startswith("disappears when it runs on one device, unsharded; fast math is off")
    assert answers[1] == "stays when the dtype is bfloat16 (12.7 noise floors)"
    assert "module by module: forward, step 0: module 1 (RMSNorm)\n" in text
    assert (
        "It may be benign: it disappears when fast math is off "
        "(a known benign cause, fast math reorders sums)." in text
    )


@pytest.mark.parametrize("answered", ["algsimp", *NO_PASS])
def test_a_draft_names_a_pass_only_where_one_is_at_fault(answered: str) -> None:
    text = drafted(a_finding(evidence={GUILTY_PASS: f"{answered}: why it says so"}), "openxla")
    assert ("### The pass" in text) == ("why it says so" in text) == (answered == "algsimp")


STOPS = "spmd-partitioning: XLA stops in spmd-partitioning: Check failed: IsScalar(x)"


@pytest.mark.parametrize("log", ["", "frame\n" * 3000], ids=["short", "without room"])
def test_the_draft_of_a_pass_in_which_xla_stops_has_no_module_after_it(log: str) -> None:
    crash = a_crash(log=log, evidence={GUILTY_PASS: STOPS})
    text = drafted(crash, "openxla", before_pass="HloModule m " + "x" * len(log))
    assert "`TF_CPP_MIN_LOG_LEVEL=0 TF_CPP_VMODULE=hlo_pass_pipeline=1`).\n\n#" in text
    assert "was evaluated" not in text
    assert "module before the pass" in text
    assert "after_pass" not in text.replace("\\", "")


def test_a_draft_without_ablations_has_no_section_for_them() -> None:
    text = drafted(a_finding(), "pytorch")
    assert "one thing changed" not in text
    assert "may be benign" not in text
    assert "first shows" not in text


def test_xla_drafts_name_the_device_and_compiler_drafts_the_attachments() -> None:
    assert "Reproducible on XLA backend [CPU/TPU]: cpu" in drafted(a_finding(side="xla"), "xla")
    text = drafted(a_crash(), "openxla", artifacts=("artifacts/before.txt",))
    assert "before and after optimization: artifacts/before.txt\n" in text


def test_a_fence_is_longer_than_any_fence_inside() -> None:
    assert fenced("a ``` b ````` c").startswith("``````\n")
    assert fenced("x" * 50_000).count("x") < 13_000


def test_text_of_a_log_cannot_leave_its_block_or_mention_people() -> None:
    log = "```\n</details>\n# a heading\n@someone"
    text = drafted(a_crash(log=log, blame="fault of @torvalds, see #1 | <b>"), "xla")
    assert "````text\n```\n</details>" in text
    assert "@torvalds" not in text
    assert "<b>" not in text


def test_unstable_and_fixed_findings_are_refused_with_the_reason() -> None:
    assert refused(a_finding()) is None
    assert "1 of 2" in (refused(a_finding(stable=(1, 2))) or "")
    assert "never repeated" in (refused(a_finding(stable=(0, 0))) or "")
    assert "FIXED" in (refused(a_finding(status="FIXED", stable=(2, 2))) or "")
    assert refused(a_finding(stable=(0, 2), status="REPRODUCED", returned=(3, 3))) is None


def test_a_reported_finding_is_refused_with_its_address_and_one_with_a_script_alone_is_not() -> None:
    issue = "https://github.com/pytorch/xla/issues/9735"
    assert refused(a_finding(upstream=issue)) == f"it is reported already: {issue}"
    assert refused(a_finding(upstream="difftest/findings/known/tie_broken_by_parallelize_module.py")) is None
    listed = "https://github.com/pytorch/xla/issues/7042"
    on_xla = a_finding(side="xla", upstream="difftest/findings/known/tie_broken_by_to_on_xla.py")
    assert refused(on_xla) == f"it is reported already: {listed}", "the list of faults has the issue"


def test_a_finding_that_is_fixed_in_the_newest_release_is_refused() -> None:
    expected = "it is fixed in torch 2.15.0, the newest release"
    assert refused(a_finding(releases={"torch 2.15.0": "fixed"})) == expected
    assert refused(a_finding(upstream="difftest/findings/known/mean_over_uneven_shards.py")) == expected
    assert refused(a_finding(releases={"torch 2.15.0": "alive"})) is None
    assert refused(a_finding(releases={"torch_xla 2.15.0": "fixed"})) is None


def test_a_draft_says_on_which_releases_it_was_tried() -> None:
    assert releases_of(a_finding()).described == "2.9.0: reproduces, 2.15.0: not tried"
    assert releases_of(a_finding()).untried == "2.15.0"
    tried = a_finding(releases={"torch 2.10.0": "unclear", "torch 2.15.0": "alive"})
    assert releases_of(tried).untried == ""
    assert "Releases of torch tried: 2.9.0: reproduces, 2.10.0: unclear, 2.15.0: reproduces" in drafted(
        tried, "pytorch"
    )
    on_xla = a_finding(side="xla", environment={"torch": "2.9.0", "torch_xla": "2.9.0"})
    assert releases_of(on_xla).untried == "", "the last release of torch_xla"
    assert releases_of(a_finding(side="xla", environment={})).untried == ""


def test_a_draft_of_a_listed_fault_says_what_its_script_said_on_other_releases() -> None:
    script = "difftest/findings/known/amin_gradient_on_dtensor.py"
    listed = a_finding(upstream=script)
    assert (releases_of(listed).described, releases_of(listed).untried) == (
        "2.9.0: reproduces, 2.15.0: reproduces",
        "",
    )
    on_xla = a_finding(side="xla", upstream=script, environment={"torch_xla": "2.9.0"})
    assert releases_of(on_xla).described == "2.9.0: reproduces", "its package is another"
    tried = a_finding(upstream=script, releases={"torch 2.15.0": "unclear"})
    assert releases_of(tried).described == "2.9.0: reproduces, 2.15.0: unclear", (
        "what was tried on this finding goes first"
    )


@pytest.mark.parametrize("name", ["openxla", "pytorch", "xla"])
def test_a_draft_names_no_folder_of_its_machine(name: str) -> None:
    frame = 'File "/home/me/venv/lib/python3.11/site-packages/torch_xla/torch_xla.py"'
    finding = a_crash(
        log=frame, detail=f"step 0, backward, rank 0: SIGABRT: {frame}", evidence={"then": frame}, blame=frame
    )
    text = drafted(finding, name, output=frame, reproducer=f'"""{frame}"""\n', versions=(("here", frame),))
    assert "/home" not in text
    assert "site-packages" not in text
    assert text.count('File "torch_xla/torch_xla.py"') == 3, (
        "in the detail, the script and its output; the log has no more than the detail"
    )


ORIGINAL = "Of the original case, 000000000000, not of the smaller one:"


@pytest.mark.parametrize("name", ["openxla", "pytorch", "xla"])
def test_what_is_of_the_original_case_is_labelled(name: str) -> None:
    original = a_finding(case="0" * 12, log="a log")
    text = drafted(original, name, of_original=MEASURED)
    sections = text.split(f"{ORIGINAL}\n\n")[1:]
    assert [section.split("\n")[0] for section in sections] == [
        "```text",
        "| | |",
        "| | one device | the case's layout |",
        "| 0.weight, step 1, update | |",
    ]
    assert "Log, of the original case, not of the smaller one:" in text
    assert "original" not in drafted(a_finding(log="a log"), name, of_original=MEASURED)


RERUN = ReducedRun(
    case=a_case().id,
    divergence=changed(a_finding(), ratio=50.0, detail="step 1, update, 0.weight: 1 / 2 differ").divergence,
    measurement=msgspec.structs.replace(MEASURED, greatest=0.125, ratio=50.0),
)


@pytest.mark.parametrize("name", ["openxla", "pytorch", "xla"])
def test_numbers_are_those_of_the_draft_s_own_case(name: str) -> None:
    text = drafted(a_finding(case="0" * 12), name, of_original=MEASURED, run=RERUN)
    assert "off by up to 0.125, 50 x the rounding noise." in text
    assert "| greatest error of an element | 0.125 |" in text
    assert "1 / 2 differ" in text
    assert "3 / 8 elements" not in text
    assert "0.5" not in text.partition("<details>")[0]


def test_without_a_run_of_the_small_case_the_first_sentence_has_no_number() -> None:
    first, *_ = drafted(a_finding(case="0" * 12), "pytorch", of_original=MEASURED).split("```")
    assert "rounding noise" not in first
    assert "off by" not in first
    assert "\n\ntorch\\_dtensor with torch 2.9.0: wrong 0.weight after the update. Expected " in first
    rule = drafted(a_finding(), "pytorch", called={"torch_dtensor": "DTensor"}, reason="DTensor has no rule")
    assert "\n\nDTensor has no rule (torch 2.9.0). Expected " in rule, "the title begins without a colon"


@pytest.mark.parametrize("name", ["openxla", "pytorch", "xla"])
def test_the_first_screen_is_title_two_sentences_and_script(name: str) -> None:
    output = "expected 0.25, actual 0.5\nBUG REPRODUCED\n"
    text = drafted(a_finding(ablations=ABLATIONS), name, output=output, run=RERUN)
    lines = [line for line in text.partition("```python")[0].splitlines() if line and line[0] != "#"]
    benign = [line for line in lines if line.startswith("It may be benign")]
    (sentences,) = (line for line in lines if line not in benign)
    assert sentences.startswith("torch\\_dtensor on 2 ranks (mesh dp=2) with torch 2.9.0: wrong 0.weight")
    expected = "Expected 0.25, got 0.5. It is correct "
    assert expected + "on one device and with torch\\_xla in the same layout." in sentences
    assert "BUG REPRODUCED" not in text
    order = (
        "```python",
        "expected 0.25",
        "<details>",
        "disappears when it runs",
        "collect_env",
    )
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert text.count("<details>") == text.count("</details>") == 1


def test_a_draft_of_the_users_own_model_warns_that_it_holds_the_source(tmp_path: Path) -> None:
    finding, script = a_finding(), "import torch\n"
    tried = releases_of(finding)
    text = render(
        Draft(finding=finding, case=own_case(tmp_path), releases=tried, reproducer=script), "pytorch"
    )
    assert "**Before you post this: the script holds the source of your model" in text
    assert "Before you post this: the script" not in drafted(a_finding(), "pytorch")


TRACEBACK = """Traceback (most recent call last):
  File "/home/me/difftest/workers/training/train.py", line 81, in step
    results = self._forward_backward(step)
              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/home/me/difftest/examples/model.py", line 5, in forward
    return self.head(x)
  File "/x/site-packages/torch/nn/modules/module.py", line 17, in _call
    return forward(*args)
  File "/x/site-packages/difftest/judge/noise.py", line 3, in run
    go()
  File "/x/site-packages/torch/distributed/workers/api.py", line 5, in go
    fail()
RuntimeError: no
"""


def test_the_last_line_of_a_traceback_in_the_users_files_is_named() -> None:
    assert last_line(TRACEBACK, ["examples/model.py", "model.py"]) == "examples/model.py:5 in forward"
    assert last_line(TRACEBACK, ["other.py"]) == last_line("no traceback", ["model.py"]) == ""


def test_tracebacks_have_no_frames_of_difftest() -> None:
    assert (
        without_own_frames(TRACEBACK)
        == """Traceback (most recent call last):
  File "/home/me/difftest/examples/model.py", line 5, in forward
    return self.head(x)
  File "/x/site-packages/torch/nn/modules/module.py", line 17, in _call
    return forward(*args)
  File "/x/site-packages/torch/distributed/workers/api.py", line 5, in go
    fail()
RuntimeError: no
"""
    )
    text = drafted(a_crash(log=TRACEBACK), "xla")
    assert "torch/nn/modules/module.py" in text
    assert "_forward_backward" not in text


def test_a_draft_for_the_compiler_has_its_graph_and_how_to_compile_it() -> None:
    graph = "module @x\n"
    text = drafted(a_crash(), "openxla", graph=graph, artifacts=("artifacts/g.txt",))
    _, _, first, *_ = text.splitlines()
    assert first.startswith("`Check failed: IsScalar(x)` (spmd\\_partitioner\\_util.h:127) ends the process")
    assert "for 2 devices" in first
    order = (
        "```text\nmodule @x\n```",
        "`python compile.py`",
        "```python\nimport jaxlib\n",
        "<details>",
    )
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert text.index("import torch") > places[-1], "the script of torch_xla is a detail"
    other = drafted(a_crash(), "openxla", graph=graph, reproducer='x(CPU_NUM_DEVICES="5")\n')
    assert "for 5 devices" in other
    again = drafted(
        a_crash(evidence={"replayed": "diverges: SIGABRT with jaxlib 0.10.2"}), "openxla", graph=graph
    )
    assert "With another XLA: diverges: SIGABRT with jaxlib 0.10.2." in again.splitlines()[2]


def test_lost_measurements_and_findings_without_numbers_read_differently() -> None:
    assert "not kept any more, but for the greatest error: 2.5e+07 x the rounding noise" in drafted(
        a_finding(), "pytorch"
    )
    assert "Nothing was measured" in drafted(a_finding(ratio=None), "pytorch")
    assert "not kept" not in drafted(a_finding(), "pytorch", of_original=MEASURED)


def test_versions_of_the_run_and_of_this_machine_are_labelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(installed, "version", lambda package: f"{package} here")
    died = a_crash(environment={"torch": "2.8.0", "torch_xla": "2.8.0", "jaxlib": "0.6"})
    versions = dict(draft.versions(died, a_case()))
    assert (versions["torch (in the run)"], versions["jax (where this was drafted)"]) == ("2.8.0", "jax here")
    assert not {"PJRT device", "torch (where this was drafted)"} & set(versions)
    reduced = dict(draft.versions(msgspec.structs.replace(died, case="0" * 12), a_case()))
    assert reduced["torch (in the original case's run)"] == "2.8.0"


def test_versions_of_the_run_come_first_and_its_settings_are_a_detail() -> None:
    versions = (
        ("torch (in the run)", "2.9.0"),
        ("torch_xla (in the run)", "2.9.0"),
        ("threads (in the run)", "1"),
        ("jax (where this was drafted)", "0.7.1"),
    )
    first, _, details = drafted(a_finding(), "pytorch", versions=versions).partition("<details>")
    assert "* torch (in the run): 2.9.0" in first
    assert "torch\\_xla" not in first.partition("Versions")[2], "the torch side does not compute with it"
    assert "torch\\_xla (in the run): 2.9.0" in details
    more = (*versions, ("torchax (in the run)", "0.0.6"))
    first, _, _ = drafted(a_crash(), "xla", versions=more).partition("<details>")
    assert "* torch\\_xla (in the run): 2.9.0" in first
    assert "torchax" not in first, "its backend does not use it"
    assert "threads (in the run): 1; jax (where this was drafted): 0.7.1" in details
    assert "threads" not in first


def test_where_nothing_rounds_the_noise_is_not_named() -> None:
    exact = msgspec.structs.replace(MEASURED, floor=0.0)
    text = drafted(a_finding(ratio=1e30), "pytorch", run=msgspec.structs.replace(RERUN, measurement=exact))
    assert "1e+30" not in text.partition("```python")[0]
    assert "in units of the rounding noise" not in text


def test_an_unknown_device_is_not_made_up() -> None:
    assert "Reproducible on XLA backend [CPU/TPU]: not known" in drafted(
        a_crash(environment={"torch": "2.8.0"}), "xla"
    )
    script = 'os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2")\n'
    died = a_crash(environment={"torch": "2.8.0"})
    assert "[CPU/TPU]: CPU\n" in drafted(died, "xla", reproducer=script), "the script ran here"
    assert "[CPU/TPU]: not known" in drafted(died, "xla", reproducer=script, ran_here=False)
    assert ("PJRT device", "TPU") in draft.versions(a_crash(environment={"device": "TPU"}), a_case())
    assert "PJRT device" not in dict(draft.versions(a_finding(environment={"device": "cpu"}), a_case()))


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    monkeypatch.setattr(draft, "collect_env", lambda _python: "PyTorch version: 2.9.0")
    corpus_ = Corpus(tmp_path)
    corpus_.prepare()
    for number in range(MOST_A_DAY + 1):
        name = f"torch_dtensor-parameters-mismatch-0000000{number}"
        corpus_.save(a_finding(fingerprint=name), a_case())
        (corpus_.root / name / SCRIPT).write_text("import torch\n")
    return corpus_


def test_the_command_writes_a_draft_until_enough_were_drafted_today(corpus: Corpus) -> None:
    *first, last = (corpus.root / name for name in corpus.fingerprints())
    for folder in first:
        done = CliRunner().invoke(command, [str(folder)], standalone_mode=False)
        assert done.return_value == 0
        assert "torch sharding fault" in (folder / "issue.md").read_text()
        assert "--package torch --versions 2.9.0,2.15.0` tries it" in done.stderr
    done = CliRunner().invoke(command, [str(last)], standalone_mode=False)
    assert done.return_value == 1
    assert f"{MOST_A_DAY} findings of this corpus were drafted today" in done.stderr
    assert not (last / "issue.md").exists()
    assert CliRunner().invoke(command, [str(first[0])], standalone_mode=False).return_value == 0, (
        "its own draft does not count"
    )


def test_yesterdays_drafts_do_not_count(corpus: Corpus) -> None:
    one, other, *_ = (corpus.root / name for name in corpus.fingerprints())
    (one / "issue.md").write_text("old")
    assert draft.limit_reached(other, 1)
    os.utime(one / "issue.md", (time.time() - 2 * 86_400,) * 2)
    assert draft.limit_reached(other, 1) is None


def test_the_command_does_not_draft_a_reported_finding(corpus: Corpus) -> None:
    name = corpus.fingerprints()[0]
    corpus.amend(name, upstream="https://github.com/pytorch/xla/issues/9735")
    done = CliRunner().invoke(command, [str(corpus.root / name)], standalone_mode=False)
    assert done.return_value == 1
    assert "not drafted: it is reported already: https://github.com/pytorch/xla/issues/9735" in done.stderr
    assert not (corpus.root / name / "issue.md").exists()


def test_an_unknown_tracker_is_wrong_usage(corpus: Corpus) -> None:
    done = CliRunner().invoke(command, [str(corpus.root / corpus.fingerprints()[0]), "--tracker", "jira"])
    assert done.exit_code == 2
    assert "'jira' is not one of 'pytorch', 'xla', 'openxla'" in done.output
