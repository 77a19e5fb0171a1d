"""What a terminal would obey is shown instead, on the terminal and in reports."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from difftest.cli import main
from difftest.ground.printable import printable

COMMANDS = (
    "\x1b]0;title\x07",
    "\x1b[2J",
    "\x1b]0;title\x07",
    "\x9b31m",
    "\x08\x08",
    "\x7f",
    "\u202e",
    "\u2066",
    "\x00",
    "\udcff",
)


@given(st.text() | st.text(st.characters(max_codepoint=0x9F)))
def test_printable_text_has_no_control_characters_and_keeps_the_rest(text: str) -> None:
    shown = printable(text)
    assert shown.encode().decode() == shown
    assert all(
        character.isprintable() or ord(character) > 0x9F or character in "\t\n\r" for character in shown
    )
    assert printable(shown) == shown
    if text.isprintable():
        assert shown == text


@pytest.mark.parametrize("text", COMMANDS)
def test_a_terminals_commands_in_a_message_are_spelled_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out, err = Terminal(), Terminal()
    name = text.replace("\x00", "\x01")
    monkeypatch.setattr(sys, "argv", ["difftest", "report", f"{tmp_path}/{name}"])
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit):
        main()
    printed = out.getvalue() + err.getvalue()
    assert "holds no corpus" in printed
    assert name not in printed
    assert "\x1b" not in printed
