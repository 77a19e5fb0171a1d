"""The command line: its messages about wrong usage, and what works without optional packages."""

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from sample_findings import FINDING
from samples import a_case

from difftest import __version__, cli
from difftest.commands.list import KINDS
from difftest.ground import plugins
from difftest.ground.errors import InfrastructureError, StoppedError, UsageError
from difftest.jobs.ask.options import USUAL_PATHS, Duration, Names
from difftest.records.corpus import Corpus
from generators import paths
from workers.xla import devices

COMMANDS = plugins.names(cli.COMMANDS)
HEAVY = ("torch", "torch_xla", "ray", "jax", "hypothesis", "pandas", "pyarrow", "jinja2")
BLOCKED = """
import importlib.machinery, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name.partition(".")[0] in {heavy} else None
    def create_module(self, spec):
        raise ImportError(f"{{spec.name}} is not to be imported here")
    def exec_module(self, module): ...
sys.meta_path.insert(0, Blocked())
"""


def called(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str | Path
) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of `difftest` with these arguments."""
    monkeypatch.setattr(sys, "argv", ["difftest", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


def alone(*arguments: str, block: tuple[str, ...] = HEAVY) -> subprocess.CompletedProcess[str]:
    """`difftest` in a fresh interpreter that refuses to import `block`."""
    program = (
        BLOCKED.format(heavy=set(block))
        + f"sys.argv = {['difftest', *arguments]!r}\nfrom difftest.cli import main\nmain()"
    )
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_every_command_has_a_file_of_its_name() -> None:
    assert {"doctor", "list", "replay", "report", "run", "support"} <= set(COMMANDS)
    for name in COMMANDS:
        command = plugins.load(cli.COMMANDS, name).command
        assert isinstance(command, click.Command)
        assert command.name == name
        assert command.help


def test_every_command_has_a_help_text(subtests: pytest.Subtests) -> None:
    for name in COMMANDS:
        with subtests.test(name):
            done = CliRunner().invoke(cli.difftest, [name, "--help"])
            assert done.exit_code == 0
            assert f"Usage: difftest {name}" in done.output


def test_the_version_is_printed() -> None:
    assert CliRunner().invoke(cli.difftest, ["--version"]).output == f"difftest, version {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("unheard",), "Error: No such command 'unheard'."),
        (
            ("list", "bugs"),
            (
                "Error: Invalid value for '{backends|paths|checks|formats}': "
                "'bugs' is not one of 'backends', 'paths', 'checks', 'formats'."
            ),
        ),
        (
            ("run", "--seed", "-1"),
            "Error: Invalid value for '--seed': -1 is not in the range 0<=x<=9223372036854775807.",
        ),
        (("run", "--cases", "0"), "Error: Invalid value for '--cases': 0 is not in the range x>=1."),
        (
            ("run", "--budget", "10"),
            (
                "Error: Invalid value for '--budget': '10' is not a duration; "
                "allowed: a number above 0 and s, m or h, such as 10m"
            ),
        ),
        (
            ("run", "--workers", "two"),
            "Error: Invalid value for '--workers': 'two' is not a valid integer range.",
        ),
        (
            ("run", "--fail-on", "x"),
            "Error: Invalid value for '--fail-on': 'x' is not one of 'new', 'any', 'infra', 'never'.",
        ),
        (
            ("replay", "--times", "0", "case.json"),
            "Error: Invalid value for '--times': 0 is not in the range x>=1.",
        ),
        (("replay", "/none/case.json"), "difftest: cannot read '/none/case.json': No such file or directory"),
        (
            ("run", "--out", "/dev/null/x"),
            (
                "difftest: cannot write to '/dev/null/x/corpus': Not a directory; "
                "give a folder that can be made and written"
            ),
        ),
    ],
)
def test_wrong_usage_is_status_2_and_one_clear_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    status, out, err = called(capsys, monkeypatch, *arguments)
    assert (status, out) == (2, "")
    assert err.splitlines()[-1] == message
    assert "Traceback" not in err


@pytest.mark.parametrize(("option", "kind"), [("--backends", "backend"), ("--paths", "path")])
def test_an_unknown_plugin_is_refused_with_the_allowed_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, option: str, kind: str
) -> None:
    status, out, err = called(capsys, monkeypatch, "run", option, "nonsense")
    assert (status, out) == (2, "")
    assert f"Invalid value for '{option}': unknown {kind} 'nonsense'; allowed: " in err


def test_the_oracle_is_refused_as_a_candidate(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, err = called(capsys, monkeypatch, "run", "--backends", "oracle")
    _, refused, allowed = err.partition("unknown backend 'oracle'; allowed: ")
    assert refused
    assert "torch_ddp" in allowed
    assert "oracle" not in allowed


@pytest.mark.parametrize("size", ["0", "-3", "1000"])
def test_a_world_size_that_this_machine_does_not_allow_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, size: str
) -> None:
    status, _, err = called(capsys, monkeypatch, "run", "--max-world-size", size)
    assert status == 2
    assert f"--max-world-size is {size}; this machine allows 1 to " in err


@pytest.mark.parametrize("text", ["{", "", '{"schema": 99}', '{"model": 3}', "[" * 5000])
def test_a_malformed_case_is_named_by_its_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "case.json"
    file.write_text(text)
    status, out, err = called(capsys, monkeypatch, "replay", file)
    assert (status, out) == (2, "")
    assert err.startswith(f"difftest: {file}: case ")
    assert err.count("\n") == 1


def test_a_malformed_finding_is_named_by_its_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Corpus(tmp_path).save(FINDING, a_case())
    folder = tmp_path / FINDING.fingerprint
    (folder / "finding.json").write_text("{}")
    for target in (folder, folder / "finding.json"):
        status, out, err = called(capsys, monkeypatch, "replay", target)
        assert (status, out) == (2, "")
        assert err.startswith(f"difftest: {folder}/finding.json: finding cannot be read: ")


def test_a_folder_that_is_no_finding_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    status, out, err = called(capsys, monkeypatch, "replay", tmp_path)
    assert (status, out) == (2, "")
    assert "holds no finding.json; give a case file or a finding's folder" in err


def test_a_case_too_large_for_this_machine_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    case = a_case(mesh=(("dp", 16),))
    (tmp_path / "case.json").write_bytes(case.to_json())
    status, out, err = called(capsys, monkeypatch, "replay", tmp_path / "case.json")
    assert (status, out) == (2, "")
    assert err == f"difftest: case {case.id} has a mesh of 16 ranks; this machine allows at most 8\n"


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (UsageError("what is 1; allowed: 2"), 2, "difftest: what is 1; allowed: 2\n"),
        (InfrastructureError("no node"), 3, "difftest: no node\n"),
        (
            OSError(28, "No space left on device", "corpus"),
            3,
            "difftest: [Errno 28] No space left on device: 'corpus'\n",
        ),
        (KeyboardInterrupt(), 130, "\ndifftest: interrupted; the same command continues\n"),
        (StoppedError("Ray is gone", status=3), 3, "difftest: Ray is gone; the same command continues\n"),
    ],
)
def test_errors_become_a_line_and_a_status(  # noqa: PLR0913, PLR0917
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    error: BaseException,
    status: int,
    line: str,
) -> None:
    def fail(*_: object) -> None:
        raise error

    (tmp_path / "case.json").write_bytes(a_case().to_json())
    monkeypatch.setattr("difftest.jobs.ask.targets.read_case", fail)
    assert called(capsys, monkeypatch, "replay", tmp_path / "case.json") == (status, "", line)


@pytest.mark.parametrize("kind", ["backends", "paths", "checks", "formats"])
def test_list_prints_every_plugin_with_its_first_line(kind: str) -> None:
    plain, structured = (
        CliRunner().invoke(cli.difftest, ["list", kind, *more]).stdout for more in ([], ["--json"])
    )
    about = json.loads(structured)[kind]
    assert tuple(about) == plugins.names(KINDS[kind])
    assert all(about.values())
    assert [line.split()[0] for line in plain.splitlines()] == list(about)


def test_doctor_prints_one_json_object() -> None:
    report = json.loads(CliRunner().invoke(cli.difftest, ["doctor", "--json"]).stdout)
    assert set(report) == {"machine", "devices", "packages", "missing", "checks", "verdict"}
    assert set(report["missing"]) == {name for name, version in report["packages"].items() if version is None}


def test_doctor_prints_missing_packages_and_how_to_install_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "difftest.ground.installed.version", lambda package: None if package == "ray" else "1"
    )
    done = CliRunner().invoke(cli.difftest, ["doctor"])
    assert done.exit_code == 0
    assert "missing: pip install -e '.[cluster]'" in done.output


@pytest.mark.parametrize(
    ("chips", "libtpu", "missing", "tpu"),
    [
        (
            8,
            None,
            {"libtpu": "pip install -e '.[xla,tpu]'"},
            "8 chips, left alone: the XLA side runs on XLA:CPU",
        ),
        (8, "0.0.21", {}, "8 chips"),
        (0, None, {}, "none: the XLA side runs on XLA:CPU with virtual devices"),
    ],
)
def test_doctor_reports_libtpu_missing_only_where_there_are_chips(
    monkeypatch: pytest.MonkeyPatch, chips: int, libtpu: str | None, missing: dict[str, str], tpu: str
) -> None:
    monkeypatch.delenv("PJRT_DEVICE", raising=False)
    monkeypatch.setattr(devices, "chips", lambda: chips)
    monkeypatch.setattr(devices, "find_spec", lambda _name: libtpu)
    monkeypatch.setattr(
        "difftest.ground.installed.version", lambda package: libtpu if package == "libtpu" else "1"
    )
    report = json.loads(CliRunner().invoke(cli.difftest, ["doctor", "--json"]).stdout)
    assert (report["missing"], report["devices"]["tpu"]) == (missing, tpu)
    plain = CliRunner().invoke(cli.difftest, ["doctor"]).output
    assert ("missing: pip install -e '.[xla,tpu]'" in plain) == bool(missing)


def test_doctor_counts_the_chips_that_the_workers_would_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "chips", lambda: 4)
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    report = json.loads(CliRunner().invoke(cli.difftest, ["doctor", "--json"]).stdout)
    assert report["devices"]["tpu"] == "4 chips, left alone: the XLA side runs on XLA:CPU"
    monkeypatch.setenv("PJRT_DEVICE", "TPU")
    report = json.loads(CliRunner().invoke(cli.difftest, ["doctor", "--json"]).stdout)
    assert report["devices"]["tpu"] == "4 chips"


def test_doctor_does_not_count_an_error_of_the_driver_as_a_gpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(
        "#!/bin/sh\necho 'NVIDIA-SMI has failed because it could not communicate with the driver.'\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    report = json.loads(CliRunner().invoke(cli.difftest, ["doctor", "--json"]).stdout)
    assert report["devices"]["cuda"].startswith("none")


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90.0), ("10m", 600.0), ("1.5h", 5400.0)])
def test_durations_are_read_in_seconds(text: str, seconds: float) -> None:
    assert Duration().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "10", "m", "-1m", "1d", "1e3s", "10 m", "10m\n", "0m", "0.0s"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a duration"):
        Duration().convert(text, None, None)


def test_names_are_split_at_commas() -> None:
    assert Names("difftest.judge.checks").convert("loss, finite", None, None) == ("loss", "finite")
    with pytest.raises(click.BadParameter, match="unknown check ''"):
        Names("difftest.judge.checks").convert("loss,", None, None)


@pytest.mark.long
@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("--version",),
        ("run", "--help"),
        ("list", "backends"),
        ("list", "paths", "--json"),
        ("doctor",),
    ],
)
def test_help_list_and_doctor_need_no_framework(arguments: tuple[str, ...]) -> None:
    done = alone(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


@pytest.mark.long
def test_help_does_not_load_what_evaluates_the_modules_of_xla() -> None:
    program = (
        "import sys\nsys.modules['difftest.passes'] = None\n"
        "sys.argv = ['difftest', '--help']\nfrom difftest.cli import main\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "  passes " in done.stdout


@pytest.mark.long
def test_the_service_and_the_generators_need_neither_torch_nor_ray() -> None:
    program = BLOCKED.format(heavy={"torch", "torch_xla", "ray", "jax"}) + (
        "import difftest.campaign.run, difftest.jobs.proof.support_table, workers.backends\n"
        "from generators.cases import case_at\n"
        "for backend in workers.backends.candidates().values():\n"
        "    backend.unsupported(case_at(0, 0))\n"
    )
    pytest.importorskip("generators.cases")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["finding.json", "case.json"])
def test_a_corpus_of_a_newer_program_stops_a_campaign_before_its_first_run(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = Corpus(tmp_path / "corpus")
    corpus.prepare()
    corpus.save(FINDING, a_case())
    file = corpus.root / FINDING.fingerprint / name
    file.write_text(json.dumps(json.loads(file.read_text()) | {"schema": 99}))
    status, out, err = called(capsys, monkeypatch, "run", "--out", tmp_path)
    assert (status, out) == (2, "")
    assert "newer version" in err
    assert not list((corpus.root / "observations").iterdir())


@pytest.mark.long
@pytest.mark.parametrize("words", [("run", "--out", "x"), ("selftest",)])
def test_a_framework_that_is_missing_is_named_with_the_command_that_installs_it(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    program = (
        f"import os, sys\nos.chdir({str(tmp_path)!r})\nsys.modules['ray'] = None\n"
        f"sys.argv = {['difftest', *words]!r}\nfrom difftest.cli import main\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.strip().splitlines()[-1] == (
        "difftest: this command needs ray, which is not installed: pip install -e '.[cluster]'"
    )


def test_the_list_of_paths_marks_those_that_run_where_none_is_named() -> None:
    lines = CliRunner().invoke(cli.difftest, ["list", "paths"]).output.splitlines()
    marked = {line.split()[0]: line.split()[1] == "*" for line in lines}
    assert marked == {name: paths.load(name).DEFAULT for name in plugins.names("generators.paths")}
    assert "`difftest list paths` marks" in USUAL_PATHS
