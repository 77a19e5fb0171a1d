"""Faults of the partitioner in jaxlib's XLA, without torch_xla; names select. Exits 0 if all are there."""

import subprocess
import sys

import jax
import numpy as np
from jax import lax, sharding

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 4)
MESH = sharding.Mesh(np.array(jax.devices()).reshape(2, 2), ("a", "b"))


def cut(x: jax.Array, *axes: str | None) -> jax.Array:
    return lax.with_sharding_constraint(x, sharding.NamedSharding(MESH, sharding.PartitionSpec(*axes)))


def conv1d(x: jax.Array, w: jax.Array) -> jax.Array:
    return lax.conv_general_dilated(cut(x, None, None, "b"), cut(w, None, None, "b"), (1,), [(1, 1)])


def diagonal(x: jax.Array, at: jax.Array) -> jax.Array:
    eye = np.eye(4, dtype=bool)
    line = jax.numpy.where(eye, cut(x, "a"), 0.0).sum(0).at[at].set(-1.0)
    return jax.numpy.where(eye, lax.pad(line, 0.0, [(0, 0, 4)]).reshape(4, 4), x).diagonal()


def scatter(x: jax.Array, at: jax.Array) -> jax.Array:
    return cut(x, "a").at[jax.numpy.arange(3)[:, None], cut(at, "a")].add(1.0).sum()


def all_of_numbers(x: jax.Array) -> jax.Array:
    return lax.reduce(cut(x, "a"), 1.0, lambda x, y: (x * y != 0).astype(float), (0,))


def residual(x: jax.Array) -> jax.Array:
    return cut(x, "a", "b") + (cut(x, "a", "b").reshape(6) * 10).reshape(2, 3)


FAULTS = {  # the right result, the function, and what it is given
    "conv1d": ([16, 24, 24, 16], conv1d, np.ones((1, 8, 4)), np.ones((1, 8, 3))),
    "all_of_numbers": (1, all_of_numbers, np.ones(4)),
    "diagonal": ([-1, 5, 10, 15], diagonal, np.arange(16.0).reshape(4, 4), np.zeros(1, int)),
    "residual_uneven": ([[0, 11, 22], [33, 44, 55]], residual, np.arange(6.0).reshape(2, 3)),
    "scatter_uneven": (3, scatter, np.zeros((3, 4)), np.zeros((3, 1), int)),
}
if sys.argv[1:2] != ["alone"]:  # each in a process of its own, which it may end
    commands = [[sys.executable, __file__, "alone", name] for name in sys.argv[1:] or FAULTS]
    statuses = [subprocess.run(command, check=False).returncode for command in commands]
    print(*[f"expected no crash, actual status {status}" for status in statuses if status < 0], sep="\n")
    sys.exit(max(0, *statuses))
expected, function, *given = FAULTS[sys.argv[2]]
try:
    actual = np.asarray(jax.jit(function)(*given))
    right = np.allclose(actual, expected)
except RuntimeError as error:
    actual, right = str(error).splitlines()[0], False
print(f"{sys.argv[2]}: expected {expected}, actual {actual}")
sys.exit(3 * right)
