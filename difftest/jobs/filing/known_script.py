"""The script that shows a known fault, which lies beside the fault's file."""

from dataclasses import dataclass

from difftest.findings.faults import SCRIPTS, KnownFault, read_faults


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownScript:
    """A script, and the texts of the exceptions or crashes by which it shows its fault.

    Without such texts it shows the fault by its status, which is 0. `title` is the fault's.
    """

    text: str
    raises: tuple[str, ...] = ()
    title: str = ""


def known_script(upstream: str) -> KnownScript | None:
    """The script by which the ledger calls a fault; None where `upstream` is an issue, or nothing.

    Only scripts of faults that difftest itself lists: a corpus may name any file.
    """
    fault = next((one for one in read_faults() if upstream in one.upstream), None)
    return script_of(fault) if fault and upstream.startswith(SCRIPTS) else None


def raises_of(text: str) -> tuple[str, ...]:
    """The texts by which the script of a known fault shows it; empty for any other script."""
    scripts = (one for fault in read_faults() for one in (script_of(fault), script_on_jax(fault)) if one)
    return next((script.raises for script in scripts if script.text == text), ())


def script_of(fault: KnownFault) -> KnownScript:
    """The script of a listed fault."""
    return KnownScript(text=fault.script.read_text(), raises=fault.raises, title=fault.title)


def script_on_jax(fault: KnownFault) -> KnownScript | None:
    """The script that shows a fault of XLA with jaxlib alone, or None."""
    if fault.on_jax is None:
        return None
    return KnownScript(text=fault.on_jax.read_text(), raises=fault.raises_on_jax)
