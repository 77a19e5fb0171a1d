"""Replaying a graph on another XLA: the StableHLO that torch_xla died of, compiled by the jaxlib of any Python.

It is only compiled, which is what a crash of the compiler needs; wrong numbers would need the graph's inputs. GSPMD is asked for, because
torch_xla uses it: JAX's own partitioner, Shardy, would ignore the graph's shardings, and nothing would be shown.
"""

import re
import signal
import subprocess
from pathlib import Path

COMPILE = """
import os, sys
text, ranks = open(sys.argv[1]).read(), int(sys.argv[2])
os.environ.update(JAX_PLATFORMS="cpu", XLA_FLAGS=f"--xla_force_host_platform_device_count={ranks}")
import jax, jaxlib
import numpy as np
from jax._src import compiler
from jax._src.interpreters import mlir
from jaxlib.mlir import ir

print("jaxlib", jaxlib.__version__, flush=True)
devices = jax.devices()
assignment = np.arange(ranks).reshape(1, ranks)
options = compiler.get_compile_options(num_replicas=1, num_partitions=ranks, device_assignment=assignment, use_spmd_partitioning=True)
options.executable_build_options.use_shardy_partitioner = False
with mlir.make_ir_context():
    compiler.backend_compile_and_load(devices[0].client, ir.Module.parse(text), devices, options, [])
print("compiled")
"""
SECONDS = 300.0


def replay(python: Path, graphs: Path, ranks: int, needle: str) -> str:
    """What becomes of the last graph in the folder `graphs`: `diverges` when it dies saying `needle`, `agrees` when it compiles.

    Anything else (no jax there, another interface, another death) is `no telling`, with the reason.
    """
    saved = sorted(graphs.glob("graph*.stablehlo.txt"))
    if not saved:
        return "no telling: no StableHLO was kept"
    command = [str(python), "-c", COMPILE, str(saved[-1]), str(ranks)]
    try:
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, errors="replace", check=False, timeout=SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"no telling: {error}"
    found = re.search(r"^jaxlib (\S+)", done.stdout, re.MULTILINE)
    where = f"jaxlib {found[1]}" if found else "that Python"
    if "compiled" in done.stdout.splitlines():
        return f"agrees: it compiles with {where}"
    if done.returncode < 0 and needle and needle in done.stderr:
        return f"diverges: {signal.Signals(-done.returncode).name} with {where}, the same message"
    return f"no telling: {where}: {''.join(done.stderr.strip().splitlines()[-1:])[:200]}"
