"""A communication hook of `DistributedDataParallel`, which averages gradients in place of the wrapper."""

import math
from typing import ClassVar, Literal

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled, has
from difftest.cases.features import sharded_optimizer

NARROW = {
    "fp16_compress": "float16",
    "fp16_wrapper": "float16",
    "bf16_compress": "bfloat16",
    "bf16_wrapper": "bfloat16",
}
"""The dtypes in which compressing hooks send gradients."""

FACTORED = ("power", "power_warm", "batched_power")
"""PowerSGD of full rank: matrices are sent as two factors, whose product they are."""

LATE = ("power_late", "batched_power_late")
"""PowerSGD that begins after the last step."""

WARM = 2
"""The first step in which PowerSGD may keep an error and factors for the next."""

LEAST_RATE = 2.0**-10
"""A `min_compression_rate` at which every matrix is factored, however little that saves."""

FULL_RANK = 4096
"""A rank that no matrix has; torch takes the least of a matrix's sizes in its place."""

LOOPED = 2
"""The greatest rank that torch makes orthogonal by Gram and Schmidt."""

LONGER = 1000
"""More steps than any case has."""


class Options(FeatureOptions, frozen=True):
    """Which hook: torch's `allreduce_hook`, one that casts, a wrapper that casts around it, or PowerSGD."""

    PATHS: ClassVar[tuple[str, ...]] = ("replicated",)
    OF_REPLICAS: ClassVar[bool] = True

    kind: Literal[
        "allreduce",
        "fp16_compress",
        "bf16_compress",
        "fp16_wrapper",
        "bf16_wrapper",
        "power_late",
        "batched_power_late",
        "power",
        "power_warm",
        "batched_power",
    ]

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Replicas alone. One that casts, or factors, is drawn for one part of usual numbers in float32.

        PowerSGD needs matrices of which it takes more than two columns: fewer it makes orthogonal by a loop
        that divides rounding by its norm. `batched_power` needs one bucket of all parameters.
        """
        if not sharded_optimizer.is_whole(case) or case.world_size == 1 or has(case, "local_steps"):
            return None
        kinds = ["allreduce", *LATE]
        usual = case.dtype == "float32" and case.data.regime == "normal" and case.training.accumulation == 1
        if usual and not has(case, "mixed_precision", "autocast", "gradient_scaler", "frozen"):
            kinds += [*NARROW, *NARROW]
            if _in_full_rank(case):
                kinds += ["power", "power"]
                kinds += ["power_warm"] * 4 if case.training.steps > WARM else []
                kinds += ["batched_power"] * 2 if case.replication.bucket_cap_mb is None else []
        return {"kind": tuple(kinds)}

    def spelled(self, _training: Training) -> Spelled:
        """Registered with what is wrapped; the reference on one device has no hook."""
        name, state = self.called()
        state_text = f"powerSGD_hook.PowerSGDState(None, {state})" if state else "None"
        rank = ("    side = math.isqrt(sum(one.numel() for one in model.parameters()) - 1) + 1",)
        return Spelled(
            wrapped=(
                "if isinstance(model, DistributedDataParallel):",
                *(rank if "side" in state else ()),
                f"    model.register_comm_hook({state_text}, {name})",
            )
        )

    def called(self) -> tuple[str, str]:
        """The hook as torch's modules have it, and the arguments of PowerSGD's state, empty for others."""
        module = "powerSGD_hook" if "power" in self.kind else "default_hooks"
        whole = f"min_compression_rate={LEAST_RATE!r}"
        plain = "use_error_feedback=False, warm_start=False, start_powerSGD_iter=0"
        match self.kind:
            case "fp16_wrapper" | "bf16_wrapper":
                wrapper = self.kind.replace("wrapper", "compress_wrapper")
                return f"default_hooks.{wrapper}(default_hooks.allreduce_hook)", ""
            case "power_late" | "batched_power_late":
                hook, state = self.kind.removesuffix("_late"), f"1, start_powerSGD_iter={LONGER}"
            case "power":
                hook, state = "power", f"{FULL_RANK}, {plain}, {whole}"
            case "power_warm":
                hook, state = "power", f"{FULL_RANK}, start_powerSGD_iter={WARM}, {whole}"
            case "batched_power":
                hook, state = "batched_power", f"side, {plain}, {whole}"
            case _:
                return f"{module}.{self.kind}_hook", ""
        return f"{module}.{hook}SGD_hook", state


def _in_full_rank(case: Case) -> bool:
    """Whether the least size of every matrix is more than two."""
    shapes = (shape for shape in case.model.parameters().values() if len(shape) > 1)
    return all(min(shape[0], math.prod(shape[1:])) > LOOPED for shape in shapes)
