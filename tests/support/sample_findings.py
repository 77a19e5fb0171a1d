"""Sample divergences, findings, measurements, observations, corpora and reports; a parser of pages."""

import io
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from samples import a_case
from sentences import replaced

from difftest.judge.divergence import Divergence
from difftest.judge.measured import Measurement
from difftest.judge.outcome import Symptom
from difftest.judge.stage import Stage
from difftest.records.conclusion import Conclusion
from difftest.records.corpus import Corpus
from difftest.records.finding import Finding
from difftest.records.observation import Ending, Observation
from reports.formats import Format
from reports.frame import Table
from reports.report import Report

MISMATCH = Divergence(
    backend="xla_spmd",
    side="xla",
    path="hybrid",
    check="gradients",
    symptom=Symptom.MISMATCH,
    stage=Stage.BACKWARD,
)
FINDING = Finding(
    fingerprint=MISMATCH.fingerprint,
    divergence=replace(MISMATCH, ratio=2e9),
    blame="xla sharding fault",
    hits=3,
    case="0" * 12,
    paths=("data_parallel", "hybrid"),
    evidence={"single": "agrees"},
    stable=(2, 2),
)

BEGAN = datetime(2026, 1, 5, 9, tzinfo=UTC)
VERSIONS = {"python": "3.11.2", "torch": "2.9.0"}
HOSTILE_TEXT = (
    "<script>document.title='owned'</script> | a \\| `b` | & \"c\"\nsecond line ``` [x](javascript:alert(1))"
)


def finding_of(**fields: Any) -> Finding:  # noqa: ANN401  fields of a finding, and of its divergence
    """A finding from fields of its own and of its divergence, and from a sentence, `detail`."""
    detail = fields.pop("detail", None)
    divergence = {name: fields.pop(name) for name in Divergence.__struct_fields__ if name in fields}
    return Finding(divergence=replaced(Divergence(**divergence), detail), **fields)


def changed(finding: Finding, **fields: Any) -> Finding:  # noqa: ANN401  as for `finding_of`
    """A finding with some fields changed, of its own or of its divergence, and perhaps another `detail`."""
    names = (*Divergence.__struct_fields__, "detail")
    divergence = {name: fields.pop(name) for name in names if name in fields}
    return replace(finding, divergence=replaced(finding.divergence, **divergence), **fields)


def a_measurement(ratio: float = 0.5, **changes: object) -> Measurement:
    numbers = Measurement(
        stage="forward",
        tensor="loss",
        step=0,
        elements=1,
        differing=0,
        error=1e-7,
        greatest=1e-7,
        scale=1.0,
        floor=2e-7,
        ratio=ratio,
    )
    return replace(numbers, **changes)


def an_observation(
    index: int = 0, backend: str = "torch_ddp", verdict: str = "agree", **changes: object
) -> Observation:
    run = Observation(
        campaign="first",
        index=index,
        case=f"{index:012x}",
        backend=backend,
        side=backend.partition("_")[0],
        purpose="campaign",
        path="data_parallel",
        mesh="dp=2",
        mesh_rank=1,
        world_size=2,
        dtype="float32",
        optimizer="sgd",
        loss="mse",
        regime="normal",
        layers=("Linear",),
        steps=2,
        outcome=Ending(status="finished"),
        verdict=verdict,
        seconds=1.5,
        environment=VERSIONS,
        started=(BEGAN + timedelta(seconds=index)).isoformat(timespec="seconds"),
    )
    return replace(run, **changes)


def a_finding(**changes: object) -> Finding:
    finding = finding_of(
        fingerprint="xla_spmd-loss-mismatch-0a1b2c3d",
        backend="xla_spmd",
        side="xla",
        path="tensor_parallel",
        check="loss",
        symptom=Symptom.MISMATCH,
        stage=Stage.FORWARD,
        blame="xla sharding fault",
        hits=3,
        case=a_case().id,
        ratio=3.1e5,
        first_seen=BEGAN.isoformat(),
        last_seen=BEGAN.isoformat(),
    )
    return changed(finding, **changes)


def a_corpus(out: Path, *observations: Observation, findings: tuple[Finding, ...] = ()) -> Corpus:
    corpus = Corpus(out / "corpus")
    corpus.prepare()
    for observation in observations:
        corpus.observe(observation)
    for finding in findings:
        corpus.save(finding, a_case())
    return corpus


def several_observations() -> tuple[Observation, ...]:
    """Two cases on two backends, one of them failing, beside the oracle's runs and a repetition."""
    failed = Ending(status="crash", stage="backward", step=1, kind="SIGSEGV", message="died")
    apart: dict[str, Any] = {"verdict": "diverge", "fingerprints": ("a-b-c-00000000", "a-b-d-00000001")}
    tensor_parallel: dict[str, Any] = {"path": "tensor_parallel", "mesh": "tp=4", "world_size": 4}
    return (
        an_observation(0, "oracle", "oracle", side="oracle"),
        an_observation(
            0, measurements=(a_measurement(), a_measurement(2.0, tensor="0.weight", stage="update"))
        ),
        an_observation(
            0, "xla_spmd", measurements=(a_measurement(1e30), a_measurement(7.0, exact=True)), **apart
        ),
        an_observation(0, "xla_spmd", measurements=(a_measurement(1e30),), purpose="repeat", **apart),
        an_observation(1, "oracle", "oracle", side="oracle", **tensor_parallel),
        an_observation(1, "xla_spmd", outcome=failed, **apart, **tensor_parallel),
        an_observation(
            1, verdict="inconclusive", reason="vague", measurements=(a_measurement(),), **tensor_parallel
        ),
    )


def a_report(t: Table, *findings: Finding, title: str = "difftest: first") -> Report:
    return Report(title=title, generated=BEGAN, frame=t, findings=findings, given=Conclusion())


def rendered(kind: Format, report: Report) -> bytes:
    """The file that a format makes of a report."""
    file = io.BytesIO()
    kind.render(report, file)
    return file.getvalue()


class ParsedPage(HTMLParser):
    """The elements, the links and the text of a page, without the text of its styles and its own script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Records the element and its links."""
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in {"href", "src"}]

    def handle_data(self, data: str) -> None:
        """Records the text."""
        if self.tags[-1:] not in (["script"], ["style"]):
            self.text += data
