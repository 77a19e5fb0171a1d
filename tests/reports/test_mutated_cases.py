"""Mutated cases: none is code in a script, and none ends in a traceback.

`pytest -m nightly tests/reports/test_mutated_cases.py` tries 100,000.
"""

import ast

import mutated_cases
import pytest
from mutated_cases import PAYLOADS, has_code

from difftest.cases.script_values import python
from difftest.ground.errors import UsageError
from reports.reproducer.permitted import require_permitted

LEAST_ACCEPTED = 0.01
"""The share of mutated cases that must still be accepted: otherwise nothing is rendered."""


@pytest.mark.parametrize(
    ("first", "count"),
    [
        (0, 200),
        pytest.param(200, 4_800, marks=pytest.mark.long),
        *(
            pytest.param(first, 20_000, marks=[pytest.mark.slow, pytest.mark.nightly])
            for first in range(5_000, 105_000, 20_000)
        ),
    ],
)
def test_no_mutated_case_is_code_in_a_script_or_ends_in_a_traceback(first: int, count: int) -> None:
    tried = mutated_cases.tried(mutated_cases.bases(), range(first, first + count))
    assert tried.inputs == count
    assert not tried.hits
    assert not tried.tracebacks
    assert tried.accepted > LEAST_ACCEPTED * count
    assert tried.rendered > tried.accepted


def test_a_payload_in_a_script_is_found() -> None:
    assert has_code("x = [1, PWN(), 2]")
    assert has_code("print(f'{torch.PWN()}')")
    assert has_code("x = ＰＷＮ()")
    assert not has_code(f"x = {PAYLOADS!r}")


@pytest.mark.parametrize("value", [True, -1, 1.5, 'x", PWN(), "', None, (1, "a"), [{"a'": (None,)}]])
def test_a_plain_value_is_itself_in_a_script(value: object) -> None:
    assert ast.literal_eval(python(value)) == value


class Text(str):
    """A text that spells itself as code."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Code."""
        return "PWN()"


@pytest.mark.parametrize("value", [Text("a"), [Text("a")], {Text("a"): 1}, object(), {1, 2}, b"a"])
def test_another_value_does_not_reach_a_script(value: object) -> None:
    with pytest.raises(TypeError, match="a script is given"):
        python(value)


@pytest.mark.parametrize(
    "text",
    [
        "import os\nos.system('id')",
        "import os\nos.execv",
        "from os import system",
        "import importlib",
        "import pathlib",
        "import sys\nsys.modules['os']",
        "import io\nio.open('x')",
        "import subprocess\nsubprocess.run(['id'])",
        "import subprocess\nsubprocess.run([sys.executable, '-c', 'x'])",
        "import torch\ntorch.os.system('id')",
        "import torch\ntorch.hub.load('x')",
        "import torch\ntorch.load('x')",
        "import torch\nmap(torch.load, ['x'])",
        "import torch\ntorch.ops.load_library('x')",
        "import torch\ntorch.utils.cpp_extension.load_inline()",
        "import torch\ntorch.jit.load('x')",
        "import torch\nx = torch\nx.utils.os.system('id')",
        "import torch as t\nt.os.system('id')",
        "import torch.hub as h\nh.load('x')",
        "import os as torch\ntorch.system('id')",
        "from torch import os",
        "from torch import *",
        "from torch.utils import cpp_extension",
        "import numpy as np\nnp.load('x')",
        "import numpy as np\nnp.zeros(1).tofile('x')",
        "exec('x')",
        "f = eval",
        "lambda eval: 1",
        "class A:\n    x = open",
        "__import__('os')",
        "f'{__import__(\"os\")}'",
        "__builtins__",
        "().__class__.__subclasses__()",
        "x.__globals__",
        "getattr(x, 'o' + 's')",
        "getattr(x, '__class__')",
        "x = (1",
        "x = 1\x00",
    ],
)
def test_a_script_that_names_more_than_a_reproducer_may_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="neither run nor written"):
        require_permitted(text)


def test_only_the_script_of_a_users_module_imports_it() -> None:
    text = "import importlib\nuser = importlib.import_module('model')\n"
    require_permitted(text, own=True)
    with pytest.raises(UsageError, match="neither run nor written"):
        require_permitted(text)
