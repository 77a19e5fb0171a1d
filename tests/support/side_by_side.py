"""Test files in several processes: when, and in which order."""

import os
from argparse import Namespace

import pytest

LONG = {
    "test_service.py": 220,
    "test_vacuous_campaigns.py": 190,
    "test_runs_ranks.py": 180,
    "test_wrapper_runs.py": 165,
    "test_sandbox.py": 155,
    "test_flash_attention_runs.py": 150,
    "test_cluster.py": 150,
    "test_blind.py": 140,
    "test_nightly.py": 135,
    "test_ten_drafts.py": 130,
    "test_jobs.py": 120,
    "test_replica_runs.py": 115,
    "test_expert_runs.py": 95,
    "test_named_models.py": 85,
    "test_own_styles.py": 85,
    "test_torch_backends.py": 85,
    "test_pytest_plugin.py": 85,
    "test_own_by_rank.py": 80,
    "test_upstream.py": 75,
    "test_figures.py": 75,
    "test_decided_in_wrapped_runs.py": 70,
    "test_pipeline_runs.py": 70,
    "test_xla_replicas.py": 70,
    "test_dispatch.py": 70,
    "test_judge_mutants.py": 70,
    "test_runs_recorder.py": 65,
    "test_feature_runs.py": 65,
    "test_own_reproducer.py": 65,
    "test_reproducer.py": 60,
    "test_own_located.py": 60,
    "test_reference_operators.py": 60,
    "test_block_runs.py": 60,
    "test_resume.py": 60,
    "test_xla_dtensor.py": 55,
    "test_mission.py": 50,
    "test_own_imports.py": 50,
    "test_lost_ray.py": 50,
    "test_wheel.py": 50,
    "test_cli.py": 50,
    "test_zygotes.py": 50,
    "test_shared_state_paths.py": 50,
    "test_vacuous_faults.py": 45,
    "test_rates.py": 45,
    "test_shared_processes.py": 45,
    "test_collectives.py": 45,
    "test_io_faults.py": 45,
    "test_scale.py": 45,
    "test_equal_trainings.py": 40,
    "test_nights.py": 40,
    "test_torchax.py": 35,
    "test_state_runs.py": 35,
    "test_reproducer_twins.py": 35,
    "test_own_real_runs.py": 35,
    "test_splash_attention.py": 30,
    "test_real_control.py": 25,
    "test_own_model_runs.py": 25,
    "test_record.py": 20,
    "test_reproducer_runs.py": 20,
    "test_context_runs.py": 20,
    "test_mutated_cases.py": 20,
    "test_bisect.py": 15,
    "test_plugin_types.py": -1,
}
"""Files with few tests that take long, in seconds on 2 cores beside others (2026-11-28).

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


WAITING = 3
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
