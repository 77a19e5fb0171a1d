"""Runs as files: saved runs are loaded, and damaged or foreign files raise an error that names the cause."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from samples import a_case, a_failure, candidate, oracle

from difftest.ground.errors import UsageError
from difftest.jobs.proof.correct_runs import same_bits
from difftest.judge.outcome import Trace
from difftest.records import traces


def saved(folder: Path) -> Path:
    traces.save(folder / "run", oracle(a_case()))
    return folder / "run"


def test_a_loaded_trace_equals_the_saved_one_bit_for_bit_with_its_noise(tmp_path: Path) -> None:
    truth, loaded = oracle(a_case()), traces.load(saved(tmp_path))
    assert isinstance(loaded, Trace)
    assert same_bits(truth, loaded)
    assert (loaded.environment, loaded.events) == (truth.environment, truth.events)
    assert [list(step) for step in loaded.noise] == [list(step) for step in truth.noise]


def test_a_failure_is_loaded_even_if_its_log_is_not_valid_unicode(tmp_path: Path) -> None:
    traces.save(tmp_path / "run", a_failure(log="half a letter: \udcff"))
    loaded = traces.load(tmp_path / "run")
    assert loaded == a_failure(log="half a letter: ?")


def test_a_failure_keeps_its_operator_and_older_files_have_none(tmp_path: Path) -> None:
    traces.save(tmp_path / "run", a_failure(operator="add"))
    loaded = traces.load(tmp_path / "run")
    assert loaded == a_failure(operator="add")
    file = tmp_path / "run.json"
    content = json.loads(file.read_text())
    del content["failure"]["operator"]
    file.write_text(json.dumps(content))
    assert traces.load(tmp_path / "run") == a_failure()


def test_a_run_that_was_never_saved_loads_as_none(tmp_path: Path) -> None:
    assert traces.load(tmp_path / "run") is None


def test_arrays_that_unpack_to_too_many_bytes_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stem = saved(tmp_path)
    monkeypatch.setattr(traces, "MOST_BYTES", 100)
    with pytest.raises(UsageError, match=r"run.npz unpacks to \d+ bytes; allowed: 100"):
        traces.load(stem)


def test_arrays_of_objects_are_refused(tmp_path: Path) -> None:
    stem = saved(tmp_path)
    arrays: dict[str, Any] = dict.fromkeys(np.load(tmp_path / "run.npz").files, np.array(["text"]))
    np.savez(tmp_path / "run.npz", **arrays)
    with pytest.raises(UsageError, match=r"dtype <U4; allowed: numbers"):
        traces.load(stem)


@pytest.mark.parametrize("suffix", ["json", "npz"])
@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
def test_damaged_files_are_a_usage_error_or_a_valid_run(
    tmp_path: Path, suffix: str, data: st.DataObject
) -> None:
    stem = saved(tmp_path)
    file = tmp_path / f"run.{suffix}"
    text = bytearray(file.read_bytes())
    place = data.draw(st.integers(0, len(text) - 1))
    text[place : place + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=20))
    file.write_bytes(bytes(text))
    message = ""
    try:
        assert traces.load(stem) is not None
    except UsageError as error:
        message = str(error)
    assert not message or "run.json cannot be read" in message


def test_a_name_for_a_missing_array_is_a_usage_error(tmp_path: Path) -> None:
    stem = saved(tmp_path)
    content = (tmp_path / "run.json").read_text()
    (tmp_path / "run.json").write_text(content.replace('["float64"', '["elsewhere"'))
    with pytest.raises(UsageError, match=r"KeyError: 'elsewhere'"):
        traces.load(stem)


def test_a_candidates_pieces_keep_their_ranks(tmp_path: Path) -> None:
    run = candidate(a_case(mesh=(("dp", 4),)))
    traces.save(tmp_path / "run", run)
    loaded = traces.load(tmp_path / "run")
    assert isinstance(loaded, Trace)
    assert same_bits(run, loaded)


def test_a_piece_that_overlaps_another_or_lies_beyond_its_array_is_a_usage_error(tmp_path: Path) -> None:
    stem = saved(tmp_path)
    content = json.loads((tmp_path / "run.json").read_text())
    first, second = (tensor["pieces"]["0"] for tensor in content["steps"][0][:2])
    second[1] = first[1]
    (tmp_path / "run.json").write_text(json.dumps(content))
    with pytest.raises(UsageError, match=r"a piece is at 0 of float64; the one before it ends at \d+"):
        traces.load(stem)
    last = json.loads(saved(tmp_path).with_suffix(".json").read_text())
    for step in (*last["steps"], *last["noise"]):
        piece = step[-1]["pieces"]["0"]
    piece[2][0] += 1
    (tmp_path / "run.json").write_text(json.dumps(last))
    with pytest.raises(UsageError, match=r"run\.json cannot be read: ValueError"):
        traces.load(stem)


def test_a_run_of_before_with_an_array_for_each_piece_is_read(tmp_path: Path) -> None:
    truth, stem = oracle(a_case()), saved(tmp_path)
    content, arrays = json.loads((tmp_path / "run.json").read_text()), {}
    for at, step in enumerate((*content["steps"], *content["noise"])):
        for tensor in step:
            for rank, (array, start, shape) in tensor["pieces"].items():
                name = f"{at}/{tensor['stage']}/{tensor['name']}/{rank}"
                whole = np.load(tmp_path / "run.npz")[array]
                arrays[name] = whole[start : start + int(np.prod(shape))].reshape(shape)
                tensor["pieces"][rank] = name
    np.savez(tmp_path / "run.npz", **arrays)
    (tmp_path / "run.json").write_text(json.dumps(content))
    loaded = traces.load(stem)
    assert isinstance(loaded, Trace)
    assert same_bits(truth, loaded)
