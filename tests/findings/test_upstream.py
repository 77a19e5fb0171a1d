"""The script of each known fault still shows it, in the releases that are here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from forked_scripts import warm
from in_part import runs_often
from installed_packages import needs
from tpu_made import PYTHON

from difftest.findings.faults import NEWEST, KnownFault, read_faults
from difftest.ground import made_environments
from difftest.jobs.watch.script_states import NEEDS_GPU, variables_of
from difftest.jobs.watch.warm_scripts import ALONE
from difftest.records.script_ending import ScriptEnding

RAISES = {
    script: raises
    for fault in read_faults()
    for script, raises in ((fault.script, fault.raises), (fault.on_jax, fault.raises_on_jax))
    if script
}
"""The scripts, each with the texts of the exceptions by which it shows its fault; none of status 0."""

NEWEST_TORCH = made_environments.python("newest")
IN_NEWEST = [
    one for one in read_faults() if (one.package, one.releases.get(NEWEST["torch"])) == ("torch", "alive")
]
"""The faults of torch that the newest release has."""

PINNED_TORCH = "2.9.0"

IN_NEWEST_ALONE = {fault.script for fault in IN_NEWEST if fault.releases.get(PINNED_TORCH) != "alive"}
"""The scripts of faults that torch has in the newest release, and not in the one that is pinned."""

pytestmark = pytest.mark.optimised

LONGEST_SECONDS = 400
"""On a busy machine; alone the longest takes 20 s."""

SWITCHED_OFF = ("nan_ignored_on_xla_on_jax",)
"""JAX has switched off what makes these, so that its scripts show nothing in any release."""

RACES = ("first_collectives_race_on_xla",)
"""A race of threads needs CPUs that are free, which the tests of every change do not leave."""

EACH = 16
"""One script in so many runs with every change, by its name; the others run in the nightly job.

What they show depends on packages whose versions are pinned, and not on this project.
"""


def only_nightly(script: Path) -> bool:
    """Whether a script runs in the nightly job alone."""
    return script.stem in RACES or not runs_often(script.stem, EACH)


@pytest.mark.slow
@pytest.mark.xla
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(script, marks=pytest.mark.nightly if only_nightly(script) else (), id=script.stem)
        for script in RAISES
        if script not in IN_NEWEST_ALONE and script.stem not in SWITCHED_OFF
    ],
)
def test_the_fault_is_still_there(script: Path) -> None:
    """If this fails, upstream may have fixed the fault: `python tools/releases.py --write` says so."""
    needs("torch_xla", reason="needs torch_xla: pip install 'difftest[xla]'")
    text = script.read_text()
    if "import torch_tpu" in text or "from torch_tpu" in text:
        require_fault(script, *with_torch_tpu(script))
        return
    if "import torchax" in text:
        pytest.importorskip("flax", reason="needs torchax: pip install -e '.[torchax]'")
    if "import jax" in text:
        needs("jax", reason="needs jax: pip install 'difftest[flash]'")
    if any(word in text for word in ALONE):
        status, output = alone(script)
    else:
        status, output = warm(text).run(script, LONGEST_SECONDS)
    if NEEDS_GPU in output:
        pytest.skip(NEEDS_GPU)
    require_fault(script, status, output)


def require_fault(script: Path, status: int, output: str) -> None:
    """Fails unless the output and the exit status show the fault."""
    if ending := ScriptEnding.of(script.read_text()):
        assert ending.matches(status, output), output
    elif raises := RAISES[script]:
        assert status != 0, output
        assert any(text in output for text in raises), output
    else:
        assert status == 0, output
        assert "expected" in output


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("fault", IN_NEWEST, ids=lambda fault: fault.name)
def test_the_newest_torch_still_has_the_fault(fault: KnownFault) -> None:
    """If this fails: `python tools/releases.py newest --package torch --write` says so in the list."""
    status, output = with_newest_torch(fault.script)
    if NEEDS_GPU in output:
        pytest.skip(NEEDS_GPU)
    require_fault(fault.script, status, output)


def with_newest_torch(script: Path) -> tuple[int, str]:
    if NEWEST_TORCH is None:
        pytest.skip(
            "no environment with the newest torch: `difftest environments make newest`, in DIFFTEST_MADE"
        )
    return alone(script, str(NEWEST_TORCH))


def alone(script: Path, python: str = sys.executable, **variables: str) -> tuple[int, str]:
    words, environment = (python, str(script)), os.environ | variables
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=LONGEST_SECONDS, env=environment
    )
    return done.returncode, done.stdout + done.stderr


def with_torch_tpu(script: Path) -> tuple[int, str]:
    if PYTHON is None:
        pytest.skip("no environment with torch_tpu: `difftest environments make torch_tpu`, in DIFFTEST_MADE")
    fault = next(one for one in read_faults() if one.script == script)
    return alone(script, str(PYTHON), **variables_of(fault, str(PYTHON)))
