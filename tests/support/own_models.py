"""Sources of users' models, which tests write into a folder of their own, and cases of them."""

import re
from pathlib import Path

import msgspec
from rooms import ROOT

from difftest.cases.case import Case, Data, Training
from difftest.cases.described import Description
from difftest.cases.layers.own import Own
from difftest.cases.layout import Layout, Mesh, Replicate, Shard
from difftest.cases.model import Model
from difftest.ground import sources

DOCUMENTED = re.search(
    r"```python\n(# model\.py\n.*?)```", (ROOT / "docs" / "own-model.md").read_text(), re.DOTALL
)
SHAPES = {"table.weight": (16, 8), "head.weight": (5, 8), "scale": ()}


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
