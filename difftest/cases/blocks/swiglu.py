"""The gated feed-forward layer of Llama: `down(silu(gate(x)) * up(x))`."""

from difftest.cases.block import BlockArguments, Choices, Declared, linear
from difftest.cases.schema import Size
from difftest.cases.sizes import widths


class Arguments(BlockArguments, frozen=True):
    """Widths; `packed` has gate and up in one matrix."""

    width: Size
    hidden: Size
    packed: bool
    bias: bool

    @classmethod
    def drawn(cls, unit: int) -> Choices:
        """With gate and up in one matrix, as serving code has them, or not."""
        return {"width": widths(unit), "hidden": widths(unit), "packed": (False, True), "bias": (False, True)}

    def declared(self) -> Declared:
        """Two or three matrices, which tensor parallelism cuts along either dim."""
        width, hidden = self.width, self.hidden
        outputs = {"gate_up": 2 * hidden} if self.packed else {"gate": hidden, "up": hidden}
        parameters: dict[str, tuple[int, ...]] = {}
        for name, rows, columns in (*((n, o, width) for n, o in outputs.items()), ("down", width, hidden)):
            parameters |= linear(name, rows, columns, bias=self.bias)
        cuts = {name: (0, 1) for name, shape in parameters.items() if len(shape) > 1}
        return Declared(parameters=parameters, inputs=width, outputs=width, cuts=cuts)
