"""Writes the table of modules from torch's database: `python -m tools.operators.modules`.

Needs torch and expecttest, and a few minutes of a core. Every stored sample has been rebuilt from its data
and called on the CPU. Prints the totals, and the exclusions with their reasons.
"""

import argparse
import functools
import inspect
import itertools
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor, nn
from torch.testing._internal.common_modules import ModuleInfo, module_db

from difftest.cases.layers.module import Construction
from generators.operators import table
from generators.operators.table import Header, OperatorEntry, Sample
from tools.operators.choose import Encoded, chosen
from tools.operators.encode import Encoder, NoDataError
from tools.operators.execute import JOURNAL
from tools.operators.isolate import CONTEXT, Journal, isolated
from tools.operators.validate import validated
from tools.operators.write import shortened

PRELOAD = ["torch.testing._internal.common_modules", "tools.operators.validate"]
OUTPUT = Path(table.__file__).with_name(table.MODULES_FILE)
MOST_SAMPLES = 6
MOST_READ = 200
EXCLUDED = {
    "nn.Lazy": "made for its first input, without which it has no parameters",
}
"""By the beginning of the name."""


def main() -> None:
    """Writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args()
    names = [info.name for info in module_db]
    CONTEXT.set_forkserver_preload(PRELOAD)
    with ThreadPoolExecutor(options.processes) as pool:
        lines = list(pool.map(functools.partial(isolated, line_of), names))
    header = Header(torch=torch.__version__.partition("+")[0], entries=len(module_db))
    options.output.write_bytes(b"\n".join([msgspec.json.encode(header), *lines]) + b"\n")
    entries = [msgspec.json.decode(line, type=OperatorEntry) for line in lines]
    print(f"{sum(bool(entry.samples) for entry in entries)} of {len(entries)} modules are usable")
    for entry in entries:
        if entry.excluded:
            print(f"excluded: {entry.name}: {entry.excluded}")


def line_of(journal: Journal, name: str) -> bytes:
    """The line of the module called `name`."""
    JOURNAL.set(journal)
    return shortened(entry_of(name))


def entry_of(name: str) -> OperatorEntry:
    """The entry called `name`, with samples or the reason for its exclusion."""
    if reason := next((why for begins, why in EXCLUDED.items() if name.startswith(begins)), ""):
        return OperatorEntry(name=name, excluded=reason)
    info = next(one for one in module_db if one.name == name)
    print(name, file=sys.stderr, flush=True)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    calls: dict[Any, str] = {"function": f"torch.{name}"}
    reasons: list[Exception] = []
    samples: list[Sample] = []
    for training in (True, False) if info.train_and_eval_differ else (True,):
        encoded = [*_samples(info, reasons, training=training)]
        own = chosen(
            encoded, lambda one: validated(info.name, calls, *one, (None, None)), reasons, MOST_SAMPLES
        )
        samples += (sample for sample in own if sample not in samples)
    if not samples:
        return OperatorEntry(name=name, excluded=str(reasons[0]) if reasons else "the database has no sample")
    return OperatorEntry(name=name, calls=calls, samples=tuple(samples))


def _samples(info: ModuleInfo, reasons: list[Exception], *, training: bool) -> Iterator[Encoded]:
    torch.manual_seed(0)
    inputs = info.module_inputs_func(
        info, device="cpu", dtype=torch.float32, requires_grad=True, training=training
    )
    for given in itertools.islice(inputs, MOST_READ):
        if given.forward_input is None:
            continue
        try:
            yield _encoded(info, given, training=training)
        except NoDataError as error:
            reasons.append(error)


def _encoded(info: ModuleInfo, given: Any, *, training: bool) -> Encoded:  # noqa: ANN401
    """The sample with the operands' own tensors."""
    constructor, forward = given.constructor_input, given.forward_input
    module: nn.Module = info.module_cls(*constructor.args, **constructor.kwargs)
    encoder = Encoder()
    names = [*inspect.signature(module.forward).parameters]
    arguments = encoder.arguments(forward.args, names)
    options = encoder.options(forward.kwargs)
    made = Construction(
        arguments=encoder.arguments(constructor.args, [*inspect.signature(info.module_cls).parameters]),
        options=encoder.options(constructor.kwargs),
        state={name: encoder.operand(tensor, name.replace(".", "_")) for name, tensor in _state(module)},
        training=training,
    )
    return Sample(operands=encoder.operands, arguments=arguments, options=options, made=made), encoder.tensors


def _state(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()


if __name__ == "__main__":
    main()
