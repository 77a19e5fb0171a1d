"""What an argument FINDING, CASE or DIR names: a finding in its corpus, a case, or a campaign's corpus."""

from dataclasses import dataclass
from pathlib import Path

from difftest.cases.case import Case
from difftest.ground.errors import UsageError
from difftest.jobs.ask.damaged_records import set_aside_and_report
from difftest.records.case_files import read_case
from difftest.records.corpus import CORPUS, FINDING, Corpus
from difftest.records.disk import refuse_link, refuse_links_below
from difftest.records.finding import Finding

EXAMPLE = "runs/first/corpus/FINGERPRINT"


@dataclass(frozen=True, slots=True)
class CaseTarget:
    """A case to run; `finding` is the one that it is the case of, None for a case file."""

    case: Case
    finding: Finding | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingTarget:
    """A finding, the simplest case that shows it, the one that it has first shown in, and its folder.

    The folder is an absolute path.
    """

    finding: Finding
    case: Case
    original: Case
    folder: Path

    @property
    def corpus(self) -> Corpus:
        """The corpus that holds the finding."""
        return Corpus(self.folder.parent)


def read_target(target: Path) -> CaseTarget:
    """A case file, or a finding's folder or its `finding.json` with the finding's original case.

    `UsageError` for anything else, and for a finding's folder that is or holds a link: what is written there
    must not land elsewhere.
    """
    if target.name == FINDING:
        target = target.parent
    if not target.exists() and target.name == str(target) and not target.suffix:
        ways = f"a finding's folder, such as {EXAMPLE}, or a case file"
        msg = f"no finding or file {str(target)!r}; give the last eight characters of a fingerprint, {ways}"
        raise UsageError(msg)
    if not target.is_dir():
        return CaseTarget(read_case(target), None)
    if not (target / FINDING).is_file():
        msg = f"{str(target)!r} holds no {FINDING}; give a case file or a finding's folder, such as {EXAMPLE}"
        raise UsageError(msg)
    refuse_link(target)
    folder = target.resolve()
    refuse_links_below(folder)
    corpus = Corpus(folder.parent)
    return CaseTarget(corpus.case(folder.name), corpus.finding(folder.name))


def read_finding(target: Path) -> FindingTarget:
    """A finding's folder or its `finding.json`, with the simplest case; `UsageError` for anything else."""
    read = read_target(target)
    if read.finding is None:
        msg = f"{str(target)!r} is a case; give a finding's folder, such as {EXAMPLE}"
        raise UsageError(msg)
    folder = (target if target.is_dir() else target.parent).resolve()
    simplest = Corpus(folder.parent).simplest(folder.name)
    return FindingTarget(finding=read.finding, case=simplest, original=read.case, folder=folder)


def read_corpus(folder: Path) -> tuple[Corpus, int]:
    """The corpus in a campaign's folder, or the corpus folder itself, and how many records were damaged.

    These are set aside and reported.

    `UsageError` when there is none, or when a record in it is too new.
    """
    corpus = campaign_corpus(folder)
    corpus = corpus if corpus.root.is_dir() else Corpus(folder)
    if not corpus.root.is_dir():
        msg = f"{str(folder)!r} holds no findings; give the folder of a campaign, such as runs/first"
        raise UsageError(msg)
    return corpus, set_aside_and_report(corpus)


def campaign_corpus(folder: Path) -> Corpus:
    """Where a campaign with the output folder `folder` keeps its corpus; `UsageError` if it is a link."""
    refuse_link(folder / CORPUS)
    return Corpus(folder / CORPUS)
