"""Programs on JAX that XLA computes correctly, sharded over a mesh of 2 x 2, and edits of their HLO."""

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from difftest.passes.snapshots import Dump, guilty_name

SCRIPT = """
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, sharding

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 4)
MESH = sharding.Mesh(np.array(jax.devices()).reshape(2, 2), ("a", "b"))

def cut(x, *axes):
    return lax.with_sharding_constraint(x, sharding.NamedSharding(MESH, sharding.PartitionSpec(*axes)))

def matmul(x, w): return cut(x, "a") @ cut(w, None, "b")
def contracted(x, w): return cut(x, None, "a") @ cut(w, "a")
def transposed(x, w): return cut(x, "a", "b").T + cut(w, "b")[:4, :8].T.sum() * 2
def softmax(x, w): return jax.nn.softmax(cut(x, "a", "b") * 3, axis=-1)
def norm(x, w): return (cut(x, "a") - x.mean(0)) / jnp.sqrt(x.var(0) + 1e-5)
def loss(x, w): return jnp.sum(jnp.tanh(cut(x, "a") @ cut(w, None, "b")) ** 2)
def gradient(x, w): return jax.grad(loss, argnums=1)(x, w)
def rolled(x, w): return jnp.roll(cut(x, "a"), 1, 0) - x
def padded(x, w): return lax.pad(cut(x, "a", "b"), 0.5, [(1, 2, 1), (0, 1, 0)]) * 2
def concatenated(x, w): return jnp.concatenate([cut(x, "a"), cut(w, "b").T], 0)
def taken(x, w): return cut(x, "a")[jnp.array([0, 3, 1])] + 1
def scattered(x, w): return cut(x, "a").at[jnp.array([0, 2])].add(2.0)
def cumulative(x, w): return jnp.cumsum(cut(x, None, "b"), 0)
def ordered(x, w): return jnp.sort(cut(x, "a"), axis=1)
def greatest(x, w): return jnp.max(cut(x, "a", "b"), axis=1) - jnp.min(x)
def looped(x, w): return lax.fori_loop(0, 3, lambda i, y: y * 0.5 + cut(x, "a"), x)
def chosen(x, w): return jnp.where(cut(x, "b") > 0, x * 2, x - 1)
def uneven(x, w): return cut(x[:3], "a") * 2 + jnp.arange(8.0)
def convolved(x, w):
    return lax.conv_general_dilated(cut(x[None], None, "a"), w.reshape(4, 4, 4), (2,), [(1, 2)])
def pooled(x, w): return lax.reduce_window(cut(x, "a"), -jnp.inf, lax.max, (2, 2), (2, 2), "VALID")
def attention(x, w):
    q, k = cut(x @ w, "a"), cut(x + 1, None, "b")
    return jax.nn.softmax((q @ k[:, :8].T) / 3, axis=-1) @ k

x, w = np.random.RandomState(0).randn(4, 8).astype("f"), np.random.RandomState(1).randn(8, 8).astype("f")
for each in (matmul, contracted, transposed, softmax, norm, gradient, rolled, padded, concatenated, taken,
             scattered, cumulative, ordered, greatest, looped, chosen, uneven, convolved, pooled, attention):
    jax.block_until_ready(jax.jit(each)(x, w))
"""
"""20 programs; each leaves its module and its numbers."""

EDITS: Mapping[str, tuple[str, str, str]] = {
    "attention": ("spmd-partitioning", r" exponential\(", " cosine("),
    "contracted": ("spmd-partitioning", r"replica_groups=\S+,", "replica_groups={{0},{1},{2},{3}},"),
    "softmax": ("algsimp", r" exponential\(", " tanh("),
    "gradient": ("fusion", r" tanh\(", " sine("),
    "rolled": ("spmd-partitioning", r" subtract\(", " add("),
    "padded": ("reshape-decomposer", r"constant\(0\.5\)", "constant(0.25)"),
    "greatest": ("layout-assignment", r" minimum\(", " maximum("),
    "chosen": ("fusion", r"direction=GT", "direction=LE"),
    "uneven": ("algsimp", r"constant\(2\)", "constant(3)"),
    "pooled": ("layout-assignment", r" maximum\(", " minimum("),
}  # fmt: skip
"""10 edits: the pass after which the text is changed, what is changed in it, and to what."""


def edited(dump: Dump, name: str) -> Dump:
    """The dump with the edit of a program in all snapshots from that of its pass on."""
    wanted, pattern, replacement = EDITS[name]
    stages = dump.snapshots
    named = ["", *(guilty_name(*pair) for pair in pairwise(stages))]
    start = named.index(wanted)
    changed = [
        re.sub(pattern, replacement, each.text) if at >= start else each.text
        for at, each in enumerate(stages)
    ]
    assert changed[start] != stages[start].text
    made = tuple(replace(each, text=text) for each, text in zip(stages, changed, strict=True))
    return replace(dump, snapshots=made)
