"""A hook of MkDocs: the pages of the top level and the Python API join those of this folder in the site.

On GitHub the pages link to files above this folder, such as `../README.md`; in the site those are pages of
its own, and links to other files of the repository become plain text.
"""

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
TOP = {
    "README.md": "front.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Files of the top level, and what the site calls them."""

API = """# Python API

::: difftest.api

## What they give

::: difftest.records.finding.Finding

::: difftest.cases.case.Case
"""

_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<file>[^)#\s:]+)(?P<anchor>#[^)\s]*)?\)")


def on_files(files: "Files", config: "MkDocsConfig") -> "Files":
    """Adds the pages that are not in this folder."""
    from mkdocs.structure.files import File

    for source, name in TOP.items():
        files.append(File.generated(config, name, content=from_top((ROOT / source).read_text())))
    files.append(File.generated(config, "api.md", content=API))
    return files


def on_page_markdown(markdown: str, page: "Page", **_: object) -> str:
    """A page of this folder, with its links to the top level and the tables that only the site has."""
    if page.file.src_uri in TOP.values():
        return markdown
    return from_top(_generator().built(markdown), "../")


def _generator() -> ModuleType:
    """`generate.py`, which is a script beside this hook and no module of a package."""
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    if spec is None or spec.loader is None:
        msg = "docs/generate.py cannot be loaded"
        raise ImportError(msg)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def from_top(text: str, above: str = "") -> str:
    """`text` with the links of the site; `above` leads from its folder to the top level."""

    def linked(link: re.Match[str]) -> str:
        text, file, anchor = link["text"], link["file"], link["anchor"] or ""
        if above and not file.startswith(above):
            return link[0]
        place = file.removeprefix(above)
        if place in TOP:
            return f"[{text}]({TOP[place]}{anchor})"
        inside = place.removeprefix("docs/")
        return f"[{text}]({inside}{anchor})" if (ROOT / "docs" / inside).exists() else text

    return _LINK.sub(linked, text)
