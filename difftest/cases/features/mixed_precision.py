"""Parameters are float32, and the model computes with copies of them in bfloat16."""

from typing import Literal

from difftest.cases.schema import Schema


class Options(Schema, frozen=True):
    """The dtype in which gradients are reduced, and who makes the output float32 again."""

    reduce: Literal["float32", "bfloat16"]
    output: Literal["policy", "loss"]
