"""Recompiling the StableHLO that torch_xla crashed on with another XLA, the jaxlib of any Python.

The graph is only compiled, which is enough to show a crash of the compiler; to show wrong numbers the graph's
inputs would be needed. GSPMD is requested because torch_xla uses it: JAX's own partitioner, Shardy, would
ignore the graph's shardings and show nothing.
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
from jax._src.lib import xla_client
from jaxlib.mlir import ir

print("jaxlib", jaxlib.__version__, flush=True)
devices = jax.devices()
assignment = np.arange(ranks).reshape(1, ranks)
options = compiler.get_compile_options(num_replicas=1, num_partitions=ranks, device_assignment=assignment)
options.executable_build_options.use_spmd_partitioning = True
options.executable_build_options.use_shardy_partitioner = False
with mlir.make_ir_context():
    compiler.backend_compile_and_load(
        devices[0].client, ir.Module.parse(text), xla_client.DeviceList(tuple(devices)), options, []
    )
print("compiled")
"""
SECONDS = 300.0
INCONCLUSIVE = "inconclusive"


def recompile(python: Path, graphs: Path, ranks: int, needle: str) -> str:
    """Compiles the last graph in the folder `graphs` with the jaxlib of `python`, for `ranks` devices.

    The result begins with `diverges` when the compiler dies with `needle` in its message, and with `agrees`
    when it compiles. Anything else (no jax there, another interface, another death) begins with
    `INCONCLUSIVE` and says why.
    """
    saved = sorted(graphs.glob("graph*.stablehlo.txt"))
    if not saved:
        return f"{INCONCLUSIVE}: no StableHLO was kept"
    command = [str(python.absolute()), "-c", COMPILE, str(saved[-1].absolute()), str(ranks)]
    try:  # in a folder that difftest has filled: Python looks for modules in the working directory first
        done = subprocess.run(  # noqa: S603  the user named this Python
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=SECONDS,
            cwd=graphs,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{INCONCLUSIVE}: {error}"
    version = re.search(r"^jaxlib (\S+)", done.stdout, re.MULTILINE)
    compiler = f"jaxlib {version[1]}" if version else "that Python"
    if "compiled" in done.stdout.splitlines():
        return f"agrees: it compiles with {compiler}"
    if done.returncode < 0 and needle and needle in done.stderr:
        return f"diverges: {signal.Signals(-done.returncode).name} with {compiler}, the same message"
    return f"{INCONCLUSIVE}: {compiler}: {''.join(done.stderr.strip().splitlines()[-1:])[:200]}"
