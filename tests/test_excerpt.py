"""The part of a script of `tests/upstream/` that shows one of its faults."""

import ast
import shlex
import textwrap
from pathlib import Path

import pytest

from difftest.commands.service.excerpt import excerpt, without_lint
from difftest.findings.faults import SCRIPTS, read_faults

CHECKOUT = Path(__file__).parents[1]
MOST_LINES = 40
SEVERAL = textwrap.dedent('''\
    """What is wrong of several; names select.

    torch 2.9.0. Exits 0 when the faults are there.
    """

    import os
    import sys
    from math import cos, sin

    os.environ.update(A="1")
    HALF = 0.5


    def half(x):
        """Uses what nothing else uses."""
        return x * HALF


    def twice(x):
        return twice(x - 1) + cos(x) if x else 0


    FAULTS = {
        # of both
        "half": lambda x: half(
            x
        ),
        "sine": sin,
        "twice": twice,
    }
    for name in sys.argv[1:] or FAULTS:
        print(name, FAULTS[name](1))
    ''')


def listed() -> list[tuple[str, str]]:
    """Every script, with the names of its faults, and the title of the fault."""
    return [
        (name, fault.title)
        for fault in read_faults()
        for name in (*fault.upstream, *([SCRIPTS + fault.on_jax] if fault.on_jax else []))
        if name.startswith(SCRIPTS)
    ]


def test_an_excerpt_has_one_fault_and_what_it_needs() -> None:
    text = excerpt(SEVERAL, ["half"], "half of it is wrong")
    assert text is not None
    assert text.startswith('"""Half of it is wrong.\n\ntorch 2.9.0. Exits 0 when the fault is there.\n"""')
    assert "HALF = 0.5" in text
    assert not {"twice", "cos", "sin", "sine"} & {
        node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)
    }
    assert "import os\n" in text
    assert "from math" not in text


def test_what_an_excerpt_prints_is_what_the_script_prints_of_the_fault(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["script"])
    for name, printed in {"half": "half 0.5\n", "twice": "twice 0.5403023058681398\n"}.items():
        exec(excerpt(SEVERAL, [name], "") or "", {})  # noqa: S102  our own script
        assert capsys.readouterr().out == printed


def test_names_that_nothing_reads_any_more_are_left_out_of_a_line_that_makes_several() -> None:
    text = (
        "A, B = start(), torch.ones(1)\nC, D = torch.ones(2), torch.ones(3)\nE = start()\n"
        "FAULTS = {'a': (A, C), 'b': (B, D, E)}\n"
    )
    assert excerpt(text, ["a"], "") == (
        "A = start()\nC = torch.ones(2)\nE = start()\nFAULTS = {\n    'a': (A, C),\n}\n"
    ), "what starts something stays"
    assert "A, B = start(), torch.ones(1)\nD = torch.ones(3)\n" in (excerpt(text, ["b"], "") or "")


def test_what_numpy_or_jax_makes_is_left_out_where_nothing_reads_it() -> None:
    text = "A = np.ones(1)\nB = jax.numpy.ones(2)\nFAULTS = {'a': A, 'b': B}\n"
    assert excerpt(text, ["a"], "") == "A = np.ones(1)\nFAULTS = {\n    'a': A,\n}\n"


def test_an_import_of_several_names_keeps_those_that_are_read() -> None:
    text = excerpt("from m import a, b\nFAULTS = {'a': a, 'b': b}\n", ["b"], "")
    assert text == "from m import b\nFAULTS = {\n    'b': b,\n}\n"


def test_faults_that_share_a_line_are_told_apart() -> None:
    text = excerpt("FAULTS = {'a': 1, 'b': [2]}\nprint(FAULTS)\n", ["b"], "")
    assert text == "FAULTS = {\n    'b': [2],\n}\nprint(FAULTS)\n"


def test_a_script_without_the_fault_by_name_has_no_excerpt() -> None:
    assert excerpt(SEVERAL, ["thrice"], "") is None
    assert excerpt(SEVERAL, [], "") is None
    assert excerpt("import sys\nreentrant = sys.argv[1:] == ['reentrant']\n", ["reentrant"], "") is None


def test_remarks_for_a_linter_are_left_out_and_their_reasons_stay() -> None:
    text = "# ruff: noqa: SLF001\nx._y  # noqa: SLF001  it has no public name\nz()  # noqa: S101, B018\n"
    assert without_lint(text) == "x._y  # it has no public name\nz()\n"
    assert without_lint("x = 1  # one\n") == "x = 1  # one\n"


@pytest.mark.long
def test_every_listed_fault_has_a_short_script_of_its_own() -> None:
    """A draft shows it on its first screen."""
    lengths = {}
    for name, title in listed():
        file, *arguments = shlex.split(name)
        whole = (CHECKOUT / file).read_text()
        text = excerpt(whole, arguments, title) or without_lint(whole)
        compile(text, name, "exec")
        lengths[name] = text.count("\n")
    assert not {name: lines for name, lines in lengths.items() if lines > MOST_LINES}
