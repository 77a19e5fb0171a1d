"""A hook of MkDocs: the top level's pages, the Python API, the notebook and an example join this folder's.

On GitHub the pages link to files above this folder, such as `../README.md`; in the site those are pages of
its own, and links to other files of the repository become plain text.
"""

import importlib.util
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

HERE = Path(__file__).parent
ROOT = HERE.parent
TOP = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Files of the top level, and what the site calls them."""

NOTEBOOK = "own-model.ipynb"
EXAMPLE = "example.zip"
"""The page of a real campaign, with the files of its findings, so that its links lead somewhere."""

PAGES = {"": "index.md", "README.md": "index.md", NOTEBOOK: "own-model-in-python.md"}
"""Other files of this folder that the site has in another form: what lists its pages is the site's menu."""

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
    files.append(File.generated(config, "own-model-in-python.md", content=notebook(HERE / NOTEBOOK)))
    with ZipFile(HERE / EXAMPLE) as example:
        for name in example.namelist():
            files.append(File.generated(config, f"example/{name}", content=example.read(name)))
    return files


def notebook(file: Path) -> str:
    """A notebook as a page: its texts, its code and what that printed or showed."""
    cells = json.loads(file.read_text())["cells"]
    return "\n\n".join(part for cell in cells for part in _shown(cell))


def _shown(cell: Mapping[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] != "code":
        yield source
        return
    yield f"```python\n{source}\n```"
    for output in cell["outputs"]:
        data = output.get("data", {})
        html, text = (
            "".join(data.get("text/html", "")),
            "".join(data.get("text/plain", output.get("text", ""))),
        )
        if html:
            yield re.sub(r"<style.*?</style>", "", html, flags=re.DOTALL)
        elif text and output.get("name") != "stderr":
            yield f"```text\n{text.rstrip()}\n```"


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
            return f"[{text}]({PAGES[file]}{anchor})" if file in PAGES else link[0]
        place = file.removeprefix(above)
        if place in TOP:
            return f"[{text}]({TOP[place]}{anchor})"
        inside = place.removeprefix("docs/")
        if inside in PAGES:
            return f"[{text}]({PAGES[inside]}{anchor})"
        return f"[{text}]({inside}{anchor})" if (ROOT / "docs" / inside).exists() else text

    return _LINK.sub(linked, text)
