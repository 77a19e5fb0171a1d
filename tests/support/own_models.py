"""Sources of users' models, which tests write into a folder of their own, and cases of them."""

import atexit
import re
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import msgspec
import pytest
from rooms import ROOT

from difftest.cases.case import Case, Data, Training
from difftest.cases.described import Answer, Description
from difftest.cases.layers.own import Own
from difftest.cases.layout import Layout, Mesh, Replicate, Shard
from difftest.cases.model import Model
from difftest.ground import sources
from difftest.ground.errors import UsageError
from difftest.ground.own_folder import own_folder
from difftest.jobs.watch.warm_python import WarmPython, warm_python
from workers.isolate import zygotes

DOCUMENTED = re.search(
    r"```python\n(# model\.py\n.*?)```", (ROOT / "docs" / "own-model.md").read_text(), re.DOTALL
)
SHAPES = {"table.weight": (16, 8), "head.weight": (5, 8), "scale": ()}


DESCRIBES = """
import os
import msgspec
from difftest.cases.described import Answer, DescriptionRequest
from difftest.cases.layout import Mesh
from difftest.ground.errors import UsageError
from workers.own.describe import description
os.chdir({folder!r})
with open({out!r}, "wb") as out:
    for source in {sources!r}:
        try:
            answer = Answer(description=description(DescriptionRequest(source, {meshes!r})))
        except UsageError as error:
            answer = Answer(error=str(error))
        out.write(msgspec.json.encode(answer) + b"\\n")
"""
MOST_SECONDS = 600
_at_exit = ExitStack()
atexit.register(_at_exit.close)


def descriptions(folder: Path, named: Sequence[str], meshes: Sequence[Mesh]) -> list[Answer]:
    """What is known of models in a working directory, from a fork of a Python that has imported torch.

    `workers.isolate.described` starts a Python for each.
    """
    place, warm = _describing()
    script, out = place / "describes.py", place / "described.jsonl"
    values = {"folder": str(folder), "out": str(out), "sources": tuple(named), "meshes": tuple(meshes)}
    script.write_text(DESCRIBES.format(**values))
    status, output = warm.run(script, MOST_SECONDS)
    assert status == 0, output
    return [msgspec.json.decode(line, type=Answer) for line in out.read_bytes().splitlines()]


@cache
def _describing() -> tuple[Path, WarmPython]:
    """That Python, and a folder for what it is given and gives."""
    place = _at_exit.enter_context(own_folder("run"))
    imported = ("torch", "torch._dynamo", "workers.own.describe")
    return place, _at_exit.enter_context(warm_python(imported, place, variables=zygotes.environment()))


def described_in(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Description:
    """What is known of a source in a folder, which becomes the working directory."""
    written(folder, text)
    monkeypatch.chdir(folder)
    (answer,) = descriptions(folder, ["model.py:build"], [Mesh((("dp", 2),))])
    if answer.description is None:
        raise UsageError(answer.error)
    return answer.description


def documented() -> str:
    """The source of the example in the documentation."""
    assert DOCUMENTED
    return DOCUMENTED[1]


def written(folder: Path, text: str = "", name: str = "model.py") -> Path:
    """A file with this source, by default that of the documentation."""
    file = folder / name
    file.write_text(text or documented())
    return file


def own_layer(folder: Path, **fields: object) -> Own:
    """The layer of a source in `folder`, with made-up parameters."""
    files = {"model.py": sources.digest(written(folder))}
    plain: dict[str, object] = {"source": "model.py:build", "files": files, "parameters": SHAPES}
    return msgspec.convert(plain | fields, type=Own)


def own_description(folder: Path, **fields: object) -> Description:
    """What could be known of such a source."""
    layer = own_layer(folder)
    return msgspec.structs.replace(Description(layer=layer, loss="cross_entropy"), **fields)


def own_case(folder: Path, **fields: object) -> Case:
    """Such a case, data parallel over two ranks."""
    model = Model(layers=(own_layer(folder, **fields),))
    layout = Layout(
        mesh=Mesh((("dp", 2),)),
        batch=(Shard(0),),
        parameters=dict.fromkeys(model.parameters(), (Replicate(),)),
    )
    training = Training(loss="cross_entropy")
    return Case(path="data_parallel", model=model, layout=layout, training=training, data=Data(batch=8))
