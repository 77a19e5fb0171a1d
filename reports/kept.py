"""What a report takes from the folders of findings: their titles, cases and files."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from difftest.cases.case import Case
from difftest.cases.layout import Mesh
from difftest.findings import titles
from difftest.findings.ledger import Ledger
from difftest.ground.errors import UsageError
from difftest.records.corpus import Corpus
from difftest.records.finding import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFiles:
    """What a reader wants of a finding's folder.

    The finding's title, the simplest case that shows it and the mesh of the first one (None where they cannot
    be read), and the names of the files and folders beside it that may be linked.
    """

    title: str
    case: Case | None = None
    mesh: Mesh | None = None
    files: tuple[str, ...] = ()


def kept(
    corpus: Corpus, findings: Iterable[Finding], called: Mapping[str, str], ledger: Ledger
) -> Mapping[str, KeptFiles]:
    """What is kept of each finding, by fingerprint; titles of known ones are those of `ledger`."""
    by_fingerprint = {}
    for finding in findings:
        own, simplest = _cases(corpus, finding.fingerprint)
        title = titles.title(finding, called, titles.reason_of(finding, own, ledger))
        mesh = own.layout.mesh if own else None
        files = corpus.files(finding.fingerprint)
        by_fingerprint[finding.fingerprint] = KeptFiles(title=title, case=simplest, mesh=mesh, files=files)
    return by_fingerprint


def _cases(corpus: Corpus, fingerprint: str) -> tuple[Case, Case] | tuple[None, None]:
    """The first case that showed a finding and the simplest one; None twice where one cannot be read."""
    try:
        return corpus.case(fingerprint), corpus.simplest(fingerprint)
    except UsageError:
        return None, None
