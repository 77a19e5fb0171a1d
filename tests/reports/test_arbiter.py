"""The arbiter compares a finding's error with the other side's, on the finding's tensor in its case."""

from pathlib import Path
from typing import Any

import pytest
from sample_findings import ParsedPage, a_corpus, a_finding, a_measurement, an_observation

from difftest.judge.stage import Stage
from reports import frame
from reports.page import arbiter
from reports.write import write


@pytest.mark.parametrize(
    ("errors", "dtype", "expected"),
    [
        ((2.0, 1.0), "float32", "within a factor of 2"),
        ((2.1, 1.0), "float32", "beyond a factor of 2"),
        ((2.1, 1.0), "bfloat16", "within a factor of 3"),
        ((3.1, 1.0), "float16", "beyond a factor of 3"),
        ((1e-9, 0.0), "float32", "beyond a factor of 2"),
        ((0.0, 0.0), "float32", "within a factor of 2"),
        ((1.0, None), "float32", ""),
    ],
)
def test_an_error_is_compared_with_that_of_the_other_side(
    errors: tuple[float, float | None], dtype: str, expected: str
) -> None:
    words = arbiter.words(*errors, dtype)
    assert words.endswith(expected)
    assert bool(words) == bool(expected)


def test_the_arbiter_compares_the_findings_tensor_in_its_own_case(tmp_path: Path) -> None:
    finding = a_finding(tensor="0.weight", stage=Stage.UPDATE)
    own: dict[str, Any] = {
        "backend": "xla_spmd",
        "verdict": "diverge",
        "fingerprints": (finding.fingerprint,),
    }
    others = (
        a_measurement(other_error=5.0),
        a_measurement(tensor="0.weight", stage="backward", other_error=6.0),
    )
    worst = a_measurement(tensor="0.weight", stage="update", error=0.25, other_error=3e-8)
    later = (a_measurement(tensor="0.weight", stage="update", other_error=7.0),)
    again = an_observation(0, case=finding.case, campaign="second", measurements=later, **own)
    runs = (
        an_observation(0, case=finding.case, measurements=(*others, worst), **own),
        an_observation(1, measurements=later, **own),
        again,
    )
    t = frame.load(a_corpus(tmp_path, *runs, findings=(finding,)))
    sentence = "root mean square error 0.250, of the other side 3.0e-8: beyond a factor of 2"
    assert arbiter.arbitrated(t, [finding, a_finding(fingerprint="b", tensor="0.weight")]) == {
        finding.fingerprint: sentence
    }
    assert f"beside the other side{sentence}" in ParsedPage(
        write(tmp_path, ["html"])[0].read_text()
    ).text.replace("\n", "")


@pytest.mark.long
def test_without_a_measurement_of_the_other_side_nothing_is_arbitrated(tmp_path: Path) -> None:
    finding = a_finding(tensor="loss")
    run = an_observation(
        0,
        "xla_spmd",
        "diverge",
        case=finding.case,
        fingerprints=(finding.fingerprint,),
        measurements=(a_measurement(),),
    )
    assert not arbiter.arbitrated(frame.load(a_corpus(tmp_path, run)), [finding])
    a_corpus(tmp_path, findings=(finding,))
    assert "beside the other side" not in write(tmp_path, ["html"])[0].read_text()
