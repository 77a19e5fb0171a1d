"""The definition of a campaign of generated cases, which names it."""

import hashlib
import re
from collections.abc import Mapping

import msgspec

from difftest.ground import installed
from difftest.records.corpus import OBSERVATIONS, Corpus
from difftest.records.disk import replace_file, writing

PACKAGES = ("hypothesis", *installed.COMPUTING)
"""Packages that draw the cases or are under test: another version of one makes another campaign."""

SCHEMA = 1
DIGEST_LENGTH = 8

_SEED = re.compile(r"seed(\d+)-")


class CampaignDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """What defines a campaign of generated cases: equal definitions give equal cases, run in the same way.

    The number of cases, and how many run at a time, are not part of it: more cases continue the same
    campaign. `versions` are those of the driver's packages; `where` is what the user set about devices and
    other Pythons. `model` is the source of a module of the user's with a digest, unset where there is none.
    """

    seed: int
    paths: tuple[str, ...]
    model: str | msgspec.UnsetType = msgspec.UNSET
    backends: tuple[str, ...]
    max_world_size: int
    twice_every: int
    versions: Mapping[str, str]
    where: Mapping[str, str] = {}
    schema: int = SCHEMA

    @property
    def name(self) -> str:
        """The campaign's name, such as `seed0-1a2b3c4d`."""
        digest = hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()
        return f"seed{self.seed}-{digest[:DIGEST_LENGTH]}"

    def keep(self, corpus: Corpus) -> None:
        """Writes it beside the campaign's runs, for people to read; the program never reads it."""
        text = msgspec.json.format(msgspec.json.encode(self, order="sorted"), indent=2)
        file = corpus.root / OBSERVATIONS / f"{self.name}.json"
        with writing(file):
            replace_file(file, text + b"\n")


def named_seed(campaign: str) -> int | None:
    """The seed in the name of a campaign of generated cases; None for any other name."""
    matched = _SEED.match(campaign)
    return int(matched[1]) if matched else None


def versions() -> Mapping[str, str]:
    """The versions of `PACKAGES` in this environment; `none` for what is not installed."""
    return {package: installed.version(package) or "none" for package in PACKAGES}
