"""The faults the service was made for: those alive in torch_xla 2.9.0 come out of generated cases, under the fingerprints of the README."""

import importlib.util
import re
from pathlib import Path

import pytest

from difftest import plugins
from difftest.comparator import compare
from generators.cases import case_at
from workers import sandbox

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xla,
    pytest.mark.skipif(importlib.util.find_spec("torch_xla") is None, reason="torch_xla is not installed"),
]

README = (Path(__file__).parents[1] / "README.md").read_text()
TABLE = README[README.index("## The faults it was made for") :].split("\n## ")[0]
FOUND = re.findall(r"`((xla_\w+)-\w+-\w+-[0-9a-f]{8})`", TABLE)
MOST_CASES = 200
PATHS = {"xla_ddp": ("data_parallel",), "xla_tp": ("tensor_parallel",)}
"""Where a backend takes few of the cases of all paths, its own."""


def test_the_table_names_what_is_alive() -> None:
    assert {backend for _, backend in FOUND} == {"xla_ddp", "xla_spmd", "xla_dtensor", "xla_tp"}


@pytest.mark.parametrize(("fingerprint", "backend"), FOUND, ids=[fingerprint for fingerprint, _ in FOUND])
def test_a_fault_alive_upstream_comes_out_of_generated_cases(fingerprint: str, backend: str) -> None:
    module = plugins.load("workers.backends", backend)
    for index in range(MOST_CASES):
        case = case_at(0, index, paths=PATHS.get(backend), max_world_size=4)
        if not module.unsupported(case):
            told = compare(case, backend, module.SIDE, sandbox.run(case, "oracle"), sandbox.run(case, backend))
            if fingerprint in [divergence.fingerprint for divergence in told.divergences[:1]]:
                return
    pytest.fail(f"{fingerprint} did not come out of {MOST_CASES} cases")
