"""The gated feed-forward layer of Llama: `down(silu(gate(x)) * up(x))`."""

from difftest.cases.schema import Schema, Size


class Arguments(Schema, frozen=True):
    """Widths; `packed` has gate and up in one matrix."""

    width: Size
    hidden: Size
    packed: bool
    bias: bool
