"""Every command that reads a corpus, on corpora and bundles that were made to do harm.

None writes outside of the corpus, runs anything that it holds, ends with a traceback, waits forever or
commands the terminal. `pytest -m nightly tests/jobs/test_hostile_inputs.py` tries 2000.
"""

import ast
import contextlib
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import hostile_corpora
import mutated_cases
import mutations
import pytest
import sample_bundles
from command_line import command
from machines import FIRST_NIGHT, NUMBERED_CASES, Machine, sharded, sharded_with_odd_seed

from difftest.ground import plugins
from difftest.jobs.campaign.cluster import Cluster
from difftest.jobs.filing.script_runs import ScriptRun
from difftest.jobs.installed.environments import Environments
from difftest.records.corpus import CORPUS, Corpus
from workers.isolate import sandbox

TREASURE = b"not to be touched\n"
BACKENDS = "torch_dtensor,xla_spmd"
STATUSES = {0, 1, 2, 3}
READ_BY_NO_COMMAND_HERE = {
    "blind",
    "case",
    "checkpoints",
    "doctor",
    "environments",
    "list",
    "models",
    "support",
    "selftest",
    "record",
    "watch",
}
"""The commands that read no corpus and no bundle."""

LONGEST_SECONDS = 600
"""How long a command may take before it counts as one that waits forever."""

MOST_KIB = 2**20
"""How much more memory than before the process may ever have used."""


def rendered(text: str, *_: object, **__: object) -> ScriptRun:
    """Stands in for running a reproducer, in which nothing of a case may be code."""
    assert not mutated_cases.has_code(text), text
    return ScriptRun(text="pass", shown=True, output="shown\n")


def ours(text: str, *_: object) -> ScriptRun:
    """Stands in for running a script for `difftest bisect`, which may be difftest's own alone."""
    imported, called = ast.parse(text).body
    assert ast.unparse(imported) == "from difftest.jobs.filing.case_script import run"
    assert re.fullmatch(r"raise SystemExit\(run\(b'.*', '[a-z_]+', '[a-z0-9_-]+'\)\)", ast.unparse(called))
    return ScriptRun(text=text, shown=True, output="shown\n")


JOINING = (
    "difftest.commands.minimize",
    "difftest.commands.triage",
    "difftest.jobs.campaign.generated_cases",
    "difftest.jobs.filing.execution",
    "difftest.jobs.campaign.repeats",
)
"""The modules that join a cluster for several commands."""


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    """Stand-ins for what runs cases and scripts, and for what starts other programs."""
    machine = Machine(torch_dtensor=sharded, xla_spmd=sharded_with_odd_seed)

    pool: Any = SimpleNamespace(execute=machine.execute, execute_group=None, capacity=None)

    @contextmanager
    def on_cluster(backends: Any, **_: object) -> Iterator[Cluster]:  # noqa: ANN401
        yield Cluster(backends=backends, pool=pool, workers=1)

    with pytest.MonkeyPatch.context() as patch:
        for module in JOINING:
            patch.setattr(f"{module}.on_cluster", on_cluster)
        patch.setattr(
            "difftest.jobs.campaign.generated_cases.generated_cases",
            lambda *_: (one for one in NUMBERED_CASES[:2]),
        )
        patch.setattr(sandbox, "run", lambda case, name, **_: machine.execute(case, name, {}))
        patch.setattr("difftest.jobs.filing.reproduction.run_script", rendered)
        patch.setattr("difftest.jobs.filing.chain.run_script", rendered)
        patch.setattr("difftest.jobs.filing.bisection.run_script", ours)
        patch.setattr("difftest.jobs.filing.reproduction.keep_graphs", lambda *_, **__: ())
        patch.setattr("difftest.jobs.filing.draft.collect_env", lambda _python: "")
        patch.setattr(Environments, "interpreter", lambda _self, _version: Path(sys.executable))
        yield machine


@pytest.fixture(scope="module")
def whole(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a campaign of two findings in `out`, a bundle, and a file that nothing may write to."""
    root = tmp_path_factory.mktemp("whole")
    assert command("run", "--out", root / "out", "--backends", BACKENDS, "--cases", "2").status == 1
    assert len(Corpus(root / "out" / CORPUS).fingerprints()) == 2
    assert command("report", root / "out", "--format", ",".join(plugins.names("reports.formats"))).status == 0
    sample_bundles.recorded(root / "bundle", "ddp", "spmd", repeats=1)
    (root / "away").mkdir()
    (root / "away" / "treasure").write_bytes(TREASURE)
    return root


def commands(rng: Random, root: Path, finding: Path) -> dict[str, tuple[object, ...]]:
    """Every command that reads a corpus or a bundle, with its arguments."""
    out, bundle = root / "out", root / "bundle"
    again = (*("--backends", BACKENDS), *(["--fresh"] if rng.random() < 0.3 else []))
    formats = ",".join(rng.sample(plugins.names("reports.formats"), 2))
    where: object = out if rng.random() < 0.8 else f"file://{out}"
    return {
        "report": (out, "--format", formats),
        "run": ("--out", where, "--cases", 2, *again),
        "nightly": ("--out", where, "--date", FIRST_NIGHT, "--backends", BACKENDS),
        "triage": (out, "--times", 1, *(["--acknowledge"] if rng.random() < 0.3 else [])),
        "compare": (bundle, "--out", rng.choice((out, root / "compared"))),
        "replay": (rng.choice((finding, finding / "case.json", bundle / "cases")),),
        "show": (finding, *(["--json"] if rng.random() < 0.3 else [])),
        "minimize": (finding, "--budget", 2),
        "ablate": (finding,),
        "reproducer": (finding, "--trust"),
        "draft": (finding,),
        "passes": (finding,),
        "validate": (finding, "--with", out / "no.patch"),
        "file": (finding, "--budget", 2, "--trust"),
        "coverage": (out,),
        "bisect": (finding, "--package", "p", "--versions", "1,2", "--times", 1),
    }


class Watch:
    """Reports what a command should not do, as Python's audit hooks see it."""

    def __init__(self) -> None:
        self.on, self.wrong = False, list[str]()
        self.allowed: tuple[str, ...] = ()
        sys.addaudithook(self)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Notes programs that are started, modules imported from the corpus, and files opened elsewhere."""
        if not self.on:
            return
        if event in {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork"}:
            self.wrong.append(f"{event} {arguments}")
        writing = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if writing and isinstance(arguments[0], str | bytes):
            given = os.fsdecode(arguments[0])
            itself = arguments[2] & os.O_NOFOLLOW  # a link is refused, and not followed
            place = os.path.realpath(os.path.dirname(given) if itself else given)  # noqa: PTH120
            if not place.startswith(self.allowed) and "__pycache__" not in place:
                self.wrong.append(f"{event} {place}")
        if event == "exec" and getattr(arguments[0], "co_filename", "").startswith(self.allowed[:2]):
            self.wrong.append(f"{event} {arguments[0].co_filename}")

    @contextmanager
    def watching(self, *allowed: Path) -> Iterator[None]:
        """Watches; files in `allowed` and temporary files may be written, and nothing in them executed."""
        temporary = Path(tempfile.gettempdir()).resolve()
        places = (*(one.resolve() for one in allowed), temporary / "tmp", temporary / "difftest-")
        self.allowed, self.wrong = (*map(str, places), os.devnull), []
        self.on = True
        try:
            yield
        finally:
            self.on = False


@pytest.fixture(scope="module")
def watch() -> Watch:
    return Watch()


def contents(folder: Path) -> dict[str, object]:
    """Everything in a folder: names, and the content of files."""
    return {
        str(file.relative_to(folder)): file.read_bytes() if file.is_file() else None
        for file in sorted(folder.rglob("*"))
    }


@contextlib.contextmanager
def ends(what: str) -> Iterator[None]:
    """Fails a command that waits forever, on a pipe for example."""

    def late(*_: object) -> None:
        pytest.fail(f"{what} did not end")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LONGEST_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.long
@pytest.mark.parametrize("count", [22, pytest.param(2000, marks=[pytest.mark.slow, pytest.mark.nightly])])
def test_hostile_corpora_are_inert(whole: Path, tmp_path: Path, watch: Watch, count: int) -> None:
    memory, results = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, list[str]()
    for number in range(count):
        rng, root = mutations.numbered(number), tmp_path / "root"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(whole, root)
        names = Corpus(root / "out" / CORPUS).fingerprints()
        finding = root / "out" / CORPUS / rng.choice(names)
        given = commands(rng, root, finding)
        name = sorted(given)[number % len(given)]
        attacked = root / ("bundle" if name == "compare" and rng.random() < 0.7 else "out")
        what = f"{number}: {name} after {hostile_corpora.attacked(rng, attacked, root / 'away')}"
        away = contents(root / "away")  # an attack through a link of an earlier one may have changed it
        there = finding if finding.is_dir() and rng.random() < 0.5 else Path.cwd()
        written = (root / "out", root / "bundle", root / "compared", Path(os.environ["XDG_STATE_HOME"]))
        with contextlib.chdir(there), ends(what), watch.watching(*written):
            result = command(name, *given[name], *(["--json"] if rng.random() < 0.3 else []))
        results.append(f"{what}: {result.status} {result.output}")
        assert result.status in STATUSES, results[-1]
        assert "Traceback" not in result.output, results[-1]
        assert not set(result.output) & set("\x1b\x07\x9b\u202e"), results[-1]
        assert watch.wrong == [], what
        assert contents(root / "away") == away, what
        assert {file.name for file in root.iterdir()} <= {"away", "out", "bundle", "compared"}, what
        assert sorted(file.name for file in tmp_path.iterdir()) == ["root"], what
    assert sum(": 0 " in one or ": 1 " in one for one in results) > count / 4, "many corpora are still read"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < MOST_KIB


def test_every_command_that_reads_a_corpus_is_tried(whole: Path) -> None:
    there = set(plugins.names("difftest.commands"))
    tried = set(commands(mutations.numbered(0), whole, whole))
    assert tried | READ_BY_NO_COMMAND_HERE == there
