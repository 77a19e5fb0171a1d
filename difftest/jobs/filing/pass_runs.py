"""Running a script so that XLA leaves the module after every pass, and JAX the numbers that it ran on."""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from difftest.ground.own_folder import own_folder
from difftest.jobs.filing.script_runs import SECONDS, execute
from difftest.passes.module_runs import ModuleRun
from difftest.passes.snapshots import FLAGS, Dump, announced, read_dumps

DRIVER = """
import runpy, sys
from pathlib import Path

folder, script, frontend = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
numbers = iter(range(64))

def saved(name, program, arguments, run):
    import numpy as np
    number = next(numbers, None)
    if number is None:
        return run()
    arrays = {f"a{at}": plain(x) for at, x in enumerate(arguments)}
    np.savez(folder / f"call{number:03}.npz", name=name, program=program, **arrays)
    results = run()
    made = results if isinstance(results, (list, tuple)) else [results]
    arrays |= {f"r{at}": plain(x) for at, x in enumerate(made)}
    np.savez(folder / f"call{number:03}.npz", name=name, program=program, **arrays)
    return results

def plain(x):
    import numpy as np
    if frontend == "torch":
        x = x.detach().float() if str(x.dtype) == "torch.bfloat16" else x.detach()
    x = np.asarray(x)
    return x.astype(np.float32) if x.dtype.kind == "V" or x.dtype.name == "bfloat16" else x

if frontend == "jax":
    from jax._src.interpreters import pxla
    run_program, programs = pxla.ExecuteReplicated.__call__, []

    def run_saved(self, *given):
        if self not in programs:
            programs.append(self)
        kept = [x for at, x in enumerate(given) if at in self.kept_var_idx]
        return saved(self.name, str(programs.index(self)), kept, lambda: run_program(self, *given))

    pxla.ExecuteReplicated.__call__ = run_saved
if frontend == "torch":
    import torch
    cpu = torch.Tensor.cpu

    def to_host(read):
        def read_saved(self, *given, **options):
            if self.device.type != "xla":
                return read(self, *given, **options)
            import torch_xla
            _, nodes = torch_xla._XLAC._get_tensors_xla_device_data_node([self])
            results = []

            def run():
                results.append(read(self, *given, **options))
                return torch.as_tensor(results[0])

            saved("SyncTensorsGraph", "", [cpu(x) for x in nodes], run)
            return results[0]
        return read_saved

    for name in ("cpu", "item", "tolist"):
        setattr(torch.Tensor, name, to_host(getattr(torch.Tensor, name)))
sys.argv = [script, "run"]
runpy.run_path(script, run_name="__main__")
"""
"""Runs a script. What JAX runs leaves its arguments, before it runs, and its results; so does a tensor of
torch_xla that is sent to the host.
"""

COMPILE = """
import os, re, sys
texts = [open(file).read() for file in sys.argv[1:]]
parts = re.search(r"num_partitions\\s*=\\s*(\\d+)", texts[0])
ranks = int(parts[1]) if parts else 1
flags = os.environ.get("XLA_FLAGS", "")
os.environ.update(JAX_PLATFORMS="cpu", XLA_FLAGS=f"{flags} --xla_force_host_platform_device_count={ranks}")
import jax
import numpy as np
from jax._src import compiler
from jax._src.interpreters import mlir
from jax._src.lib import xla_client
from jaxlib.mlir import ir

def from_hlo(text):
    try:
        from jaxlib._hlo import hlo_module_from_text
    except ImportError:
        from jaxlib.xla_client import _xla

        hlo_module_from_text = _xla.hlo_module_from_text
    module = xla_client.XlaComputation(hlo_module_from_text(text).as_serialized_hlo_module_proto())
    return xla_client._xla.mlir.xla_computation_to_mlir_module(module)

def compile(text):
    if text.startswith("HloModule"):
        text = from_hlo(text)
    options.executable_build_options.use_shardy_partitioner = "sdy." in str(text)
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        compiler.backend_compile_and_load(devices[0].client, module, executors, options, [])
    print("compiled", flush=True)

devices = jax.devices()
executors = xla_client.DeviceList(tuple(devices))
assignment = np.arange(ranks).reshape(1, ranks)
options = compiler.get_compile_options(num_replicas=1, num_partitions=ranks, device_assignment=assignment)
options.executable_build_options.use_spmd_partitioning = ranks > 1
for text in texts:
    try:
        compile(text)
    except Exception as error:
        print(error, file=sys.stderr, flush=True)
"""
"""Compiles modules, as HLO or StableHLO, for as many devices as the first one says."""

LOG = {"TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_VMODULE": "hlo_pass_pipeline=1"}
"""XLA's log names every pass before it runs."""

FATAL = re.compile(r"Check failed: .*|RET_CHECK failure .*|(?:UNIMPLEMENTED|INTERNAL): .*")


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRun:
    """What a script left: its modules, the calls by module name, and where it died.

    `status` is its exit status, None where its time ran out. `failure` is XLA's message if a check failed or
    it refused, and `running` the pass that ran last.
    """

    dumps: tuple[Dump, ...]
    calls: tuple[tuple[str, str, ModuleRun], ...]
    status: int | None
    output: str
    failure: str
    running: str

    @property
    def stopped(self) -> bool:
        """Whether XLA did not end the last module: nothing ran it, or the script did not end by itself."""
        last = self.dumps[-1]
        return not last.finished or not any(call.results for call in self.calls_of(last))

    def calls_of(self, dump: Dump) -> list[ModuleRun]:
        """The calls of a module: those of its name and parameters, of programs of a name in turn."""
        name, dims = _word(dump), [parameter.shape.dims for parameter in dump.first.module.entry.parameters]
        fitting = [
            (program, call)
            for called, program, call in self.calls
            if _plain(called) == name and [each.shape for each in call.arguments] == dims
        ]
        programs = list(dict.fromkeys(program for program, _ in fitting))
        of_name = [each.name for each in self.dumps if _word(each) == name]
        mine = programs[of_name.index(dump.name)] if len(programs) == len(of_name) else None
        return [call for program, call in fitting if mine is None or program == mine]


def _word(dump: Dump) -> str:
    """The name of a module without its number."""
    return _plain(dump.name.partition(".")[2].partition(".")[0])


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name)


def run_passes(text: str, python: str = sys.executable) -> PassRun:
    """Runs a script on JAX or torch_xla with `python`."""
    on_jax = "jax" if re.search(r"^\s*(?:import|from) jax\b", text, re.MULTILINE) else "torch"
    with own_folder("graphs") as folder:
        file = folder / "reproducer.py"
        file.write_text(text)
        dump = folder / "dump"
        dump.mkdir()
        return _ran([python, "-c", DRIVER, str(dump), str(file), on_jax], folder, dump)


def compile_passes(texts: Sequence[str], python: str = sys.executable) -> PassRun:
    """Compiles modules, HLO or StableHLO as text, one after the other with the jaxlib of `python`."""
    with own_folder("graphs") as folder:
        files = [folder / f"hlo{number:03}.txt" for number in range(len(texts))]
        for file, text in zip(files, texts, strict=True):
            file.write_text(text)
        dump = folder / "dump"
        dump.mkdir()
        return _ran([python, "-c", COMPILE, *map(str, files)], folder, dump)


def _ran(command: list[str], folder: Path, dump: Path) -> PassRun:
    flags = " ".join(f"--{name}={value}" for name, value in (("xla_dump_to", str(dump)), *FLAGS.items()))
    status, out, log = execute(command, folder, {"XLA_FLAGS": flags, **LOG}, SECONDS)
    failures = FATAL.findall(log)
    return PassRun(
        dumps=read_dumps(dump),
        calls=tuple(_calls(dump)),
        status=status,
        output=out,
        failure=failures[0].strip() if failures else "",
        running=announced(log),
    )


def _calls(folder: Path) -> Sequence[tuple[str, str, ModuleRun]]:
    calls = list[tuple[str, str, ModuleRun]]()
    for file in sorted(folder.glob("call*.npz")):
        with np.load(file) as kept:
            arrays: dict[str, Any] = {key: kept[key] for key in kept.files}
        given = tuple(arrays[key] for key in _keys(arrays, "a"))
        made = tuple(arrays[key] for key in _keys(arrays, "r"))
        calls.append((str(arrays["name"]), str(arrays["program"]), ModuleRun(arguments=given, results=made)))
    return calls


def _keys(arrays: dict[str, Any], letter: str) -> list[str]:
    return sorted((key for key in arrays if re.fullmatch(rf"{letter}\d+", key)), key=lambda key: int(key[1:]))
