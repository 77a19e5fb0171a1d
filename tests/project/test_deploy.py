"""The deployment examples: their difftest commands exist, with the options that they use."""

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from difftest import cli

yaml = pytest.importorskip("yaml", reason="needs PyYAML: pip install 'difftest[cluster]'")

ROOT = Path(__file__).parents[2]
GITHUB, TWO_VERSIONS = ROOT / ".github", ROOT / "tests" / "service" / "test_two_versions.py"
FILES = sorted(file for folder in ("deploy", "workflows") for file in (GITHUB / folder).iterdir())
OURS = re.compile(r"\s*(?:\S*/|\S*python\d? -m )?difftest (.*)")
CRON = re.compile(r"(\S+) (\S+) (\S+) (\S+) (\S+)")
TODAY = "$(date -u +%Y%m%d)"
OWN_ENVIRONMENTS = {"torch_tpu"}
"""Extras whose packages exclude those of the others: `difftest environments make` pins them."""

RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


def texts(value: Any) -> Iterator[str]:  # noqa: ANN401  any value of a YAML document
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from texts(one)
    elif isinstance(value, str):
        yield value


def shell(file: Path) -> Iterator[str]:
    """Every line of a file that may be a command; a crontab's without its schedule."""
    if file.suffix in {".yaml", ".yml"}:
        for document in yaml.safe_load_all(file.read_text()):
            for text in texts(document):
                yield from text.splitlines()
    elif file.name == "Containerfile":
        said = {line.split()[0]: line.partition(" ")[2] for line in file.read_text().splitlines() if line}
        yield shlex.join([*json.loads(said["ENTRYPOINT"]), *json.loads(said["CMD"])])
    elif file.name == "crontab":
        yield from (
            line.split(maxsplit=5)[5]
            for line in file.read_text().splitlines()
            if line and not line.startswith("#")
        )


def commands(file: Path) -> Iterator[list[str]]:
    for line in shell(file):
        for part in re.split(r"&&|;|\|", line.replace(TODAY, "20261124")):
            if ours := OURS.fullmatch(part):
                yield shlex.split(ours[1])


COMMANDS = [(file.name, words) for file in FILES for words in commands(file)]


@pytest.mark.parametrize(
    ("file", "words"), COMMANDS, ids=lambda value: value if isinstance(value, str) else " ".join(value)
)
def test_every_command_exists_and_accepts_its_options(file: str, words: list[str]) -> None:
    del file
    command = cli.difftest.get_command(click.Context(cli.difftest), words[0])
    assert command, f"there is no command {words[0]!r}"
    command.make_context(words[0], words[1:])


def test_wrong_options_would_be_detected() -> None:
    command = cli.difftest.get_command(click.Context(cli.difftest), "nightly")
    assert command
    for words in (["--bugdet", "1h"], ["--budget", "long"], ["--fail-on", "old"]):
        with pytest.raises(click.UsageError):
            command.make_context("nightly", words)


def test_every_deployment_runs_the_nightly_command() -> None:
    assert {file for file, words in COMMANDS if words[0] == "nightly"} == {
        "ci.yml",
        "crontab",
        "rayjob.yaml",
        "nightly.yml",
    }


def test_the_container_runs_the_main_job_of_the_readme() -> None:
    (words,) = [words for file, words in COMMANDS if file == "Containerfile"]
    assert f"difftest {shlex.join(words[:5])} " in (ROOT / "README.md").read_text()


def test_the_nightly_keeps_the_page_and_what_ci_servers_read() -> None:
    given = [step.get("with", {}) for step in steps("campaign")]
    kept = {one["name"]: one["path"] for one in given if {"name", "path"} <= one.keys()}
    assert kept["page"].split() == ["runs/nightly/report.html", "runs/nightly/junit.xml"]
    assert any("GITHUB_STEP_SUMMARY" in step.get("run", "") for step in steps("campaign"))


def test_the_two_machines_record_the_bundles_that_the_third_compares() -> None:
    jobs = yaml.safe_load((GITHUB / "deploy" / "two-machines.yml").read_text())["jobs"]
    (compare,) = [line for step in jobs.pop("compare")["steps"] if "compare" in (line := step.get("run", ""))]
    given = [step.get("with", {}) for job in jobs.values() for step in job["steps"]]
    kept = [one["name"] for one in given if one.get("path") == "bundle"]
    assert len(jobs) == len(kept) == 2
    assert set(kept) <= set(compare.split())


def steps(job: str) -> list[dict[str, Any]]:
    workflow = yaml.safe_load((GITHUB / "workflows" / "nightly.yml").read_text())
    return list(workflow["jobs"][job]["steps"])


def test_the_two_versions_are_tested_every_night_with_another_torch() -> None:
    needed = TWO_VERSIONS.read_text()
    (tested,) = [
        step for step in steps("versions") if str(TWO_VERSIONS.relative_to(ROOT)) in step.get("run", "")
    ]
    (variable,) = tested["env"]
    assert f'"{variable}" not in os.environ' in needed
    other = tested["env"][variable].removeprefix("${{ github.workspace }}/")
    (made,) = [step["run"] for step in steps("versions") if f"-p {other}" in step.get("run", "")]
    (torch,) = re.findall(r" torch==(\S+)", made)
    pinned = re.search(r"^torch==(.*)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned
    assert torch != pinned[1]
    assert "-m nightly" in tested["run"]


def test_the_nightly_installs_real_models_where_it_runs_their_tests() -> None:
    needing = {
        str(file.relative_to(ROOT))
        for file in (ROOT / "tests").rglob("test_*.py")
        if re.search(r"difftest\[models\]", text := file.read_text()) and "mark.nightly" in text
    }
    installed, tested = (step["run"] for step in steps("models") if "run" in step)
    assert re.search(r"\.\[[^]]*\bmodels\b", installed)
    assert needing == {*tested.removeprefix("pytest -m nightly ").split()}


def test_the_bisection_of_every_night_expects_the_documented_answer() -> None:
    (lines,) = [
        step["run"].splitlines() for step in steps("versions") if "difftest bisect" in step.get("run", "")
    ]
    command, expected = lines
    script, answer = command.split()[2], shlex.split(expected)[2]
    assert (ROOT / script).is_file()
    documented = (ROOT / "docs" / "bisect.md").read_text()
    printed = documented.partition(f"$ {command.partition(' | ')[0]}\n")[2].partition("```")[0]
    assert answer in printed.splitlines()


def test_every_schedule_is_a_valid_cron_expression() -> None:
    lines = [
        line for line in (GITHUB / "deploy" / "crontab").read_text().splitlines() if not line.startswith("#")
    ]
    workflow = yaml.safe_load((GITHUB / "workflows" / "nightly.yml").read_text())
    (cronjob,) = documents("cronjob.yaml", "CronJob")
    for schedule in (
        *lines,
        workflow[True]["schedule"][0]["cron"],
        cronjob["spec"]["schedule"],
    ):  # YAML takes `on` for a truth value
        fields = CRON.match(schedule)
        assert fields
        for value, (least, most) in zip(fields.groups(), RANGES, strict=True):
            assert value == "*" or least <= int(value) <= most


def documents(name: str, kind: str) -> list[Any]:
    return [one for one in yaml.safe_load_all((GITHUB / "deploy" / name).read_text()) if one["kind"] == kind]


def test_the_manifests_refer_to_each_other_consistently() -> None:
    (job,), (cronjob,) = documents("rayjob.yaml", "RayJob"), documents("cronjob.yaml", "CronJob")
    assert (job["apiVersion"], cronjob["apiVersion"]) == ("ray.io/v1", "batch/v1")
    cluster = job["spec"]["rayClusterSpec"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        assert group["template"]["spec"]["containers"]
    assert {"groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams"} <= set(
        cluster["workerGroupSpecs"][0]
    )
    pod = cronjob["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    account, role = documents("cronjob.yaml", "ServiceAccount")[0], documents("cronjob.yaml", "Role")[0]
    binding, claim = (
        documents("cronjob.yaml", "RoleBinding")[0],
        documents("cronjob.yaml", "PersistentVolumeClaim")[0],
    )
    assert pod["serviceAccountName"] == account["metadata"]["name"] == binding["subjects"][0]["name"]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    volumes = cluster["headGroupSpec"]["template"]["spec"]["volumes"]
    assert [volume["persistentVolumeClaim"]["claimName"] for volume in volumes] == [claim["metadata"]["name"]]
    assert pod["containers"][0]["command"][-1] == "/manifests/rayjob.yaml"


def test_the_job_keeps_its_files_where_the_claim_is_mounted() -> None:
    (job,) = documents("rayjob.yaml", "RayJob")
    words = shlex.split(job["spec"]["entrypoint"])
    out = words[words.index("--out") + 1]
    head = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    assert any(out.startswith(mount["mountPath"] + "/") for mount in head["containers"][0]["volumeMounts"])


WORKFLOWS = [*sorted((GITHUB / "workflows").iterdir()), GITHUB / "deploy" / "two-machines.yml"]
PINNED = re.compile(r"actions/[\w/-]+@[0-9a-f]{40}")
INSTALLS = re.compile(r"\bpip install\b([^&|;]*)")


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_workflows_read_alone_and_name_actions_by_their_commits(file: Path) -> None:
    workflow = yaml.safe_load(file.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert "permissions" not in job, f"{name} asks for more"
    used = re.findall(r"uses: (.*)", file.read_text())
    assert used
    for action in used:
        sha, _, tag = action.partition("  # ")
        assert PINNED.fullmatch(sha), action
        assert re.match(r"v\d+\.\d+\.\d+", tag), f"the tag of {sha} helps whoever reads or updates it"


@pytest.mark.parametrize(
    "file", [*FILES, ROOT / ".ci" / "run", ROOT / "justfile"], ids=lambda file: file.name
)
def test_everything_that_is_installed_has_an_exact_version(file: Path) -> None:
    lines = list(shell(file)) if file.suffix in {".yml", ".yaml"} else file.read_text().splitlines()
    for line in (line for line in lines if not line.lstrip().startswith("#")):
        for words in INSTALLS.findall(line):
            constrained = "constraints.txt" in words or re.search(r"-c \S*(newest|older)\.txt", words)
            assert constrained or "--require-hashes -r" in words, line


def test_the_constraints_cover_every_extra_that_needs_no_environment_of_its_own() -> None:
    pins = dict(re.findall(r"^([\w.-]+)==(.*)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    names = {canonicalize_name(name) for name in pins}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    for extra in extras.keys() - OWN_ENVIRONMENTS:
        for line in (*project["project"]["dependencies"], *extras[extra]):
            assert canonicalize_name(Requirement(line).name) in names, f"{extra} needs {line}"
    assert project["build-system"]["requires"] == [f"setuptools=={pins['setuptools']}"]


def test_what_installs_everything_else_is_the_pinned_version_with_its_hashes() -> None:
    text = (ROOT / "tools.txt").read_text()
    pins = dict(re.findall(r"^([\w.-]+)==(.*)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    tools = dict(re.findall(r"^([\w.-]+)==(\S+) \\$", text, re.MULTILINE))
    assert tools == {name: pins[name] for name in ("pip", "setuptools", "uv")}
    assert text.count("--hash=sha256:") > len(tools)
    assert "://" not in text + (ROOT / "constraints.txt").read_text(), "no address of an index is kept"


def test_a_job_runs_the_night_in_exactly_the_environment_of_the_readme() -> None:
    first = (ROOT / "README.md").read_text().partition("uv pip install ")[2].partition(" && ")[0]
    job = yaml.safe_load((GITHUB / "workflows" / "ci.yml").read_text())["jobs"]["readme"]
    installs = [
        one for step in job["steps"] for one in re.findall(r"uv pip install (.*)", step.get("run", ""))
    ]
    assert installs == [first]
    assert any("difftest nightly --out nights --budget 3m" in step.get("run", "") for step in job["steps"])
