"""The program with which maintainers of XLA compile the module that a script of torch_xla made."""

GRAPH, PROGRAM = "graph.stablehlo.txt", "compile.py"
"""The files that a draft for the compiler names: the module, and the program that compiles it."""

COMPILE = """\
import jaxlib
import numpy as np
from jaxlib import xla_client

options = xla_client.CompileOptions()
build = options.executable_build_options
build.num_partitions, build.use_spmd_partitioning = {ranks}, True
devices = np.arange({ranks}, dtype=np.int32).reshape(1, -1)
build.device_assignment = xla_client.DeviceAssignment.create(devices)
print("jaxlib", jaxlib.__version__, flush=True)
client = xla_client.make_cpu_client(num_devices={ranks})
client.compile_and_load(open("{graph}").read(), xla_client.DeviceList(tuple(client.devices())), options)
print("compiled")
"""


def compile_program(ranks: int) -> str:
    """A program that compiles the module in `GRAPH` for `ranks` devices, with jaxlib alone."""
    return COMPILE.format(ranks=ranks, graph=GRAPH)
