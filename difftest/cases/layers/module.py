"""One of torch's own modules, called once with its parameters and buffers as operands.

It is an operator whose function is the module: what follows for operators (placements, gradients, noise
floors, the values of operands after the run) follows for its state too.
"""

import re
from collections.abc import Iterator, Mapping

import msgspec

from difftest.cases.calls import ModuleCall
from difftest.cases.layers.operator import Argument, Operator, referred
from difftest.cases.schema import Keyword, Name, TensorName

FUNCTIONS: Mapping[str, str] = {
    "BCELoss": "binary_cross_entropy",
    "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
    "CrossEntropyLoss": "cross_entropy",
    "KLDivLoss": "kl_div",
    "LogSigmoid": "logsigmoid",
    "MultiLabelMarginLoss": "multilabel_margin_loss",
    "MultiLabelSoftMarginLoss": "multilabel_soft_margin_loss",
    "PReLU": "prelu",
    "Softmax2d": "softmax",
}
"""The functions of torch.nn.functional whose names are not those of their modules in small letters."""

WITHOUT_FUNCTION = re.compile("^(Lazy|Transformer|MultiheadAttention|RNN|GRU|LSTM)|Pad[123]d$")
"""Modules that call several functions, or one of many modes."""

WORD = re.compile("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""Where a word begins in the name of a class: `Smooth|L1|Loss`, `Poisson|NLL|Loss`."""


def function_called(title: str) -> str:
    """The entry of the operator table that a module calls; anything else as it is.

    >>> function_called("nn.SmoothL1Loss"), function_called("nn.BatchNorm3d"), function_called("add")
    ('nn.functional.smooth_l1_loss', 'nn.functional.batch_norm', 'add')
    """
    prefix, _, name = title.rpartition(".")
    if prefix != "nn" or WITHOUT_FUNCTION.search(name):
        return title
    words = WORD.sub("_", name.replace("ReLU", "Relu").replace("SiLU", "Silu")).lower()
    function = FUNCTIONS.get(name, re.sub("_norm[123]d$", "_norm", words))
    return f"nn.functional.{function}"


class Construction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How a module is made: the arguments of its class, in which a tensor is an operand.

    `state` has the operand of every parameter and buffer by the module's own name for it, such as
    `self_attn.out_proj.weight`. `training`: it is in training mode; otherwise it is evaluated.
    """

    arguments: tuple[Argument, ...] = ()
    options: Mapping[Keyword, Argument] = {}
    state: Mapping[TensorName, Name] = {}
    training: bool = True


class Module(Operator, frozen=True, kw_only=True, tag="module"):
    """A call of the module `call`, such as `torch.nn.Conv2d`, made as `made` says.

    `arguments` and `options` are those of its forward. It may change its buffers.
    """

    call: ModuleCall
    made: Construction

    @property
    def named_arguments(self) -> Mapping[str, Argument]:
        """Those of its class and of its forward."""
        return {**self.made.options, **self.options}

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
