"""Test files in several processes: when, and in which order."""

import os
from argparse import Namespace

import pytest

LONG = {
    "test_service.py": 400,
    "test_upstream.py": 300,
    "test_rates.py": 150,
    "test_vacuous_faults.py": 130,
    "test_recorded.py": 97,
    "test_jobs.py": 90,
    "test_cluster.py": 85,
    "test_runs_ranks.py": 85,
    "test_flash_attention_runs.py": 80,
    "test_vacuous_campaigns.py": 80,
    "test_feature_runs.py": 75,
    "test_named_models.py": 100,
    "test_notebook.py": 75,
    "test_real_control.py": 70,
    "test_mission.py": 65,
    "test_dispatch.py": 60,
    "test_wrapper_runs.py": 60,
    "test_ten_drafts.py": 55,
    "test_ablate.py": 50,
    "test_block_runs.py": 50,
    "test_collectives.py": 50,
    "test_torchax.py": 50,
    "test_bisect.py": 45,
    "test_pytest_plugin.py": 40,
    "test_decided_in_real_runs.py": 40,
    "test_lost_ray.py": 40,
    "test_own_located.py": 30,
    "test_own_model_runs.py": 25,
    "test_own_real_runs.py": 25,
    "test_reduce_quality.py": 25,
    "test_reports_browser.py": 25,
    "test_wheel.py": 25,
    "test_reproducer_runs.py": 20,
    "test_plugin_types.py": -1,
}
"""Files with few tests that take long, in seconds on 2 cores beside others (2026-11-27).

Where several processes share the tests, one that begins late with such a file works alone at the end. What is
negative comes last: mypy's cache is there by then, because CI runs mypy beside the tests.
"""


SECONDS, FAST = {"slow": 3.0, "long": 2.0}, 0.05
"""What most tests with a marker take, and most of the others."""


def longest_first(items: list[pytest.Item]) -> None:
    """Sort the tests by how long their file takes, which of most files follows from its slow tests."""
    files: dict[str, float] = {}
    for item in items:
        files[item.path.name] = files.get(item.path.name, 0.0) + _seconds(item)
    items.sort(key=lambda item: LONG.get(item.path.name, files[item.path.name]), reverse=True)


def _seconds(item: pytest.Item) -> float:
    return next((seconds for mark, seconds in SECONDS.items() if item.get_closest_marker(mark)), FAST)


WAITING = 2
"""How many processes more than CPUs: campaigns often wait, for processes that start and for deadlines."""

CAMPAIGN_GIB = 4
"""What a process may need with the campaign that it runs."""


def processes(cpus: int, memory_bytes: int) -> int:
    """How many run all tests, on a machine of so many CPUs and so much memory."""
    return max(1, min(cpus + WAITING, memory_bytes // (CAMPAIGN_GIB << 30)))


def runs_all(option: Namespace, *, named: bool) -> bool:
    """Whether all tests but the nightly ones are to run, in as many processes as we like."""
    options = vars(option)  # those of a plugin are missing without it
    chosen = named or options["keyword"] or options["markexpr"] != "not nightly" or options.get("lf")
    one_process = options["collectonly"] or options["usepdb"] or "PYTEST_XDIST_WORKER" in os.environ
    return not chosen and not one_process and options.get("numprocesses", 0) is None
