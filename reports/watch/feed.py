"""`feed.xml`: the flips as an Atom feed, the last ones first."""

from collections.abc import Mapping, Sequence
from xml.etree import ElementTree as ET

from difftest.findings.flips import Flip, Tried
from difftest.ground.printable import printable
from reports.watch.page import FILENAME as PAGE
from reports.watch.words import explanation, title

FILENAME = "feed.xml"
ATOM = "http://www.w3.org/2005/Atom"
NEVER = "1970-01-01T00:00:00+00:00"
MOST_ENTRIES = 500
"""A reader keeps what it has had; older flips are on the page."""


def render(flips: Sequence[Flip], tried: Sequence[Tried], _problems: Mapping[str, str]) -> bytes:
    """The file's content. An entry keeps its id when the watch runs again."""
    feed = ET.Element("feed", xmlns=ATOM)
    last = max((entry.when for entry in tried if entry.when), default=NEVER)
    _add(feed, "id", "urn:difftest:watch")
    _add(feed, "title", "difftest watch: what releases changed")
    _add(feed, "updated", last)
    ET.SubElement(_add(feed, "author"), "name").text = "difftest"
    newest = sorted(flips, key=lambda flip: flip.after.when or NEVER, reverse=True)
    for flip in newest[:MOST_ENTRIES]:
        entry = _add(feed, "entry")
        _add(entry, "id", f"urn:difftest:flip:{flip.identity}")
        _add(entry, "title", title(flip))
        _add(entry, "updated", flip.after.when or NEVER)
        ET.SubElement(entry, "link", href=PAGE)
        ET.SubElement(entry, "category", term=str(flip.became))
        _add(entry, "summary", explanation(flip))
    ET.indent(feed)
    text: bytes = ET.tostring(feed, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _add(parent: ET.Element, name: str, text: str = "") -> ET.Element:
    element = ET.SubElement(parent, name)
    element.text = printable(text) or None
    return element
