"""One of torch's own modules, called once with its parameters and buffers as operands.

It is an operator whose function is the module: what follows for operators (placements, gradients, noise
floors, the values of operands after the run) follows for its state too.
"""

from collections.abc import Iterator, Mapping

import msgspec

from difftest.cases.layers.operator import Argument, Operator, referred


class Construction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How a module is made: the arguments of its class, in which a tensor is an operand.

    `state` has the operand of every parameter and buffer by the module's own name for it, such as
    `self_attn.out_proj.weight`. `training`: it is in training mode; otherwise it is evaluated.
    """

    arguments: tuple[Argument, ...] = ()
    options: Mapping[str, Argument] = {}
    state: Mapping[str, str] = {}
    training: bool = True


class Module(Operator, frozen=True, kw_only=True, tag="module"):
    """A call of the module `call`, such as `torch.nn.Conv2d`, made as `made` says.

    `arguments` and `options` are those of its forward. It may change its buffers.
    """

    made: Construction

    def contradiction(self) -> str:
        """Its state consists of operands, and it has the form of a function."""
        if self.form != "function":
            return f"a module of the form {self.form}; allowed: function"
        unknown = sorted({*self.made.state.values()} - {*self.operands})
        return f"no operand {unknown[0]} for its state" if unknown else super().contradiction()

    def references(self) -> Iterator[str]:
        """The tensors in its arguments, those of its class, and its state."""
        yield from super().references()
        yield from referred((*self.made.arguments, *self.made.options.values()))
        yield from self.made.state.values()

    def features(self) -> Iterator[str]:
        """As an operator, and its mode."""
        yield from super().features()
        yield "training" if self.made.training else "evaluated"
