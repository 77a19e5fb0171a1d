"""Linear layers by a `torch.autograd.Function` of the user's, as fused kernels are called."""

from typing import ClassVar, Literal

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled, has
from difftest.cases.layers import walk
from difftest.cases.layers.linear import Linear


class Options(FeatureOptions, frozen=True):
    """How many tensors the function returns: the whole product, or its columns in two halves."""

    PATHS: ClassVar[tuple[str, ...]] = ("pipelines", "wrappers")

    outputs: Literal[1, 2]

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """A model with a Linear layer; not on `tp`, whose pieces are the styles' business, nor traced apart.

        Autocast does not reach into such a function.
        """
        linear = any(isinstance(layer, Linear) for _, layer in walk(case.model.layers))
        traced = case.start.accumulation == "scan" or "tp" in case.layout.mesh.names
        if not linear or traced or has(case, "autocast"):
            return None
        return {"outputs": (1, 2)}

    def spelled(self, _training: Training) -> Spelled:
        """The function, and a forward of every Linear layer that calls it."""
        halves = "product[..., : (width := product.shape[-1]) // 2], product[..., width // 2 :]"
        product = halves if self.outputs > 1 else "product"
        gradient = "torch.cat(gradients, -1)" if self.outputs > 1 else "gradients[0]"
        result = "torch.cat(given, -1)" if self.outputs > 1 else "given"
        return Spelled(
            built=(
                "class Product(torch.autograd.Function):",
                "    @staticmethod",
                "    def forward(ctx, x, weight, bias):",
                "        ctx.save_for_backward(x, weight)",
                "        ctx.biased = bias is not None",
                "        product = functional.linear(x, weight, bias)",
                f"        return {product}",
                "",
                "    @staticmethod",
                "    def backward(ctx, *gradients):",
                "        x, weight = ctx.saved_tensors",
                f"        gradient = {gradient}",
                "        rows = gradient.flatten(0, -2)",
                "        bias = rows.sum(0) if ctx.biased else None",
                "        return gradient @ weight, rows.t() @ x.flatten(0, -2), bias",
                "",
                "def through(linear):",
                "    def forward(x):",
                "        given = Product.apply(x, linear.weight, linear.bias)",
                f"        return {result}",
                "    return forward",
                "",
                "for linear in model.modules():",
                "    if type(linear) is nn.Linear:",
                "        linear.forward = through(linear)",
            )
        )
