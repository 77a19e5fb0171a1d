"""Writes the operator table from torch's OpInfo database: `python -m tools.operators.write`.

Needs torch and expecttest, and ten minutes of a core. Every stored sample has been rebuilt from its data
and called on the CPU. Prints the totals, and the exclusions with their reasons.
"""

import argparse
import functools
import itertools
import math
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch.testing import make_tensor
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import UnaryUfuncInfo

from difftest.cases.layers.operator import MOST_DIMS, Form
from generators.operators import table
from generators.operators.table import Header, OperatorEntry, Sample
from tools.operators.calls import Call, NotRecordedError, called, method_name, name_of
from tools.operators.choose import FEW_ELEMENTS, Encoded, UnfitError, chosen
from tools.operators.encode import Encoder, NoDataError
from tools.operators.exclusions import reason_for
from tools.operators.execute import JOURNAL
from tools.operators.isolate import CONTEXT, Journal, isolated
from tools.operators.own import own_db
from tools.operators.validate import rejected, validated

PRELOAD = ["torch.testing._internal.common_methods_invocations", "tools.operators.validate"]
"""What the processes of all entries import once."""

OUTPUT = Path(table.__file__).with_name(table.FILE)
MOST_ERRORS = 4
MOST_READ = 400
USUAL_SIZES = {"S": 5, "M": 10, "L": 20}
EVEN_SIZES = {"S": 4, "M": 6, "L": 8}
UNARY_SHAPES = ((4, 6), (3, 5, 2), (8,), (), (2, 0, 3))
IN_PLACE = re.compile(r"[^_]_$|\.__i\w+__$")


def main() -> None:
    """Writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[], help="write these entries anew, and keep the others")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args()
    names = list(_operators())
    lines = _read_lines(options.output) if options.only else {}
    wanted = options.only or names
    CONTEXT.set_forkserver_preload(PRELOAD)
    with ThreadPoolExecutor(options.processes) as pool:
        for name, line in zip(wanted, pool.map(functools.partial(isolated, line_of), wanted), strict=True):
            lines[name] = line
            _write(options.output, [lines[name] for name in names if name in lines])
    _print_totals([msgspec.json.decode(line, type=OperatorEntry) for line in lines.values()])


def _write(file: Path, lines: Sequence[bytes]) -> None:
    """Writes the table as far as it is."""
    header = Header(torch=torch.__version__.partition("+")[0], entries=len(op_db))
    file.write_bytes(b"\n".join([msgspec.json.encode(header), *lines]) + b"\n")


def _read_lines(file: Path) -> dict[str, bytes]:
    """The lines of an earlier table by the entries' names."""
    lines = file.read_bytes().splitlines()[1:] if file.is_file() else []
    return {msgspec.json.decode(line, type=OperatorEntry).name: line for line in lines}


@functools.cache
def _operators() -> Mapping[str, Any]:
    """The entries of torch's database and of ours by name."""
    return {op.full_name: op for op in (*op_db, *own_db())}


def line_of(journal: Journal, name: str) -> bytes:
    """The line of the entry called `name`."""
    JOURNAL.set(journal)
    return shortened(entry_of(name))


def shortened(entry: OperatorEntry) -> bytes:
    """An entry as a line; literal values without the decimals that integers do not need."""
    text = msgspec.json.encode(entry).decode()
    return re.sub(r'"values":\[[^\]]*\]', lambda match: re.sub(r"\.0(?=[,\]])", "", match[0]), text).encode()


def entry_of(name: str) -> OperatorEntry:
    """The entry called `name`, with samples or the reason for its exclusion."""
    op = _operators()[name]
    if reason := reason_for(name):
        return OperatorEntry(name=name, excluded=reason)
    print(name, file=sys.stderr, flush=True)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    try:
        calls, samples = _samples(op)
    except (NotRecordedError, NoDataError, UnfitError) as error:
        return OperatorEntry(name=name, excluded=str(error))
    return OperatorEntry(name=name, calls=calls, samples=samples, errors=tuple(_errors(op, calls)))


def _samples(op: Any) -> tuple[dict[Form, str], tuple[Sample, ...]]:  # noqa: ANN401
    calls: dict[Form, str] = {}
    reasons: list[Exception] = []
    encoded: list[Encoded] = []
    for args, kwargs in _inputs(op):
        try:
            call = called(op.op, args, kwargs)
            calls = calls or _forms(op, call)
            encoded.append(_encoded(call, next(iter(calls.values()))))
        except Exception as error:  # noqa: BLE001  whatever a sample does, the next may work
            reasons.append(error)
    domain = getattr(op, "domain", (None, None))
    samples = chosen(encoded, lambda one: validated(op.full_name, calls, *one, domain), reasons)
    if not samples:
        raise UnfitError(str(reasons[0] if reasons else "the database has no sample on the CPU"))
    return calls, tuple(samples)


def _inputs(op: Any) -> Iterator[tuple[Sequence[Any], dict[str, Any]]]:  # noqa: ANN401
    """The arguments of the database's samples, in float32 where there is that."""
    dtype = next((one for one in (torch.float32, torch.int64, torch.bool) if one in op.dtypes), None)
    if dtype is None:
        msg = "takes complex numbers alone"
        raise NoDataError(msg)
    gradient = op.supports_autograd and dtype is torch.float32
    with _sizes(EVEN_SIZES):
        yield from _read(op, dtype, gradient=gradient)
    yield from _read(op, dtype, gradient=gradient)
    if isinstance(op, UnaryUfuncInfo):
        for shape in UNARY_SHAPES:
            low, high = op.domain
            tensor = make_tensor(shape, dtype=dtype, device="cpu", low=low, high=high, requires_grad=gradient)
            yield (tensor,), op.sample_kwargs("cpu", dtype, tensor)[0]


def _read(op: Any, dtype: torch.dtype, *, gradient: bool) -> Iterator[tuple[Sequence[Any], dict[str, Any]]]:  # noqa: ANN401
    """The first samples; those that follow one which cannot be made with these sizes are lost."""
    try:
        for sample in itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=gradient), MOST_READ):
            yield (sample.input, *sample.args), sample.kwargs
    except (RuntimeError, IndexError, ValueError):
        return


@contextmanager
def _sizes(sizes: Mapping[str, int]) -> Iterator[None]:
    """The database's usual sizes replaced: 5 and 10 by sizes that meshes cut evenly."""
    modules = [one for name, one in sys.modules.items() if name.startswith("torch.testing._internal")]
    old = [
        (module, name, getattr(module, name))
        for module in modules
        for name in sizes
        if getattr(module, name, None) == USUAL_SIZES[name]
    ]
    for module, name, _ in old:
        setattr(module, name, sizes[name])
    try:
        yield
    finally:
        for module, name, value in old:
            setattr(module, name, value)


def _forms(op: Any, call: Call) -> dict[Form, str]:  # noqa: ANN401
    """What is called in each form; the first is that of the database."""
    if IN_PLACE.search(call.name):
        return {"inplace": call.name}
    if call.name.startswith("Tensor."):
        return {"method": call.name}
    calls: dict[Form, str] = {"function": call.name}
    if name := method_name(op.method_variant):
        calls["method"] = name
    if name := method_name(op.inplace_variant) or name_of(op.inplace_variant):
        calls["inplace"] = name
    if op.supports_out:
        calls["out"] = call.name
    return calls


def _encoded(call: Call, expected: str) -> Encoded:
    if call.name != expected:
        msg = f"calls {call.name}, and {expected} elsewhere"
        raise NotRecordedError(msg)
    encoder = Encoder()
    arguments, options = encoder.encode(call)
    if not encoder.operands:
        msg = "takes no tensor"
        raise NoDataError(msg)
    return Sample(operands=encoder.operands, arguments=arguments, options=options), encoder.tensors


def _errors(op: Any, calls: dict[Form, str]) -> Iterator[Sample]:  # noqa: ANN401
    """Samples that torch rejects, each for another reason."""
    rejecting: dict[str, Sample] = {}
    try:
        inputs = list(op.error_inputs("cpu")) if op.error_inputs_func else []
    except Exception:  # noqa: BLE001  some need CUDA
        return
    for one in inputs:
        given = one.sample_input
        try:
            call = called(op.op, (given.input, *given.args), given.kwargs)
        except Exception:  # noqa: BLE001  it raises, as it should
            call = Call(next(iter(calls.values())), (given.input, *given.args), given.kwargs)
        try:
            encoder = Encoder(explicit=True)
            arguments, options = encoder.encode(call)
        except NoDataError:
            continue
        sample = Sample(operands=encoder.operands, arguments=arguments, options=options)
        reason, small = str(one.error_regex), not any(map(_too_large, encoder.operands.values()))
        if encoder.operands and small and reason not in rejecting and rejected(op.full_name, calls, sample):
            rejecting[reason] = sample
    yield from itertools.islice(rejecting.values(), MOST_ERRORS)


def _too_large(operand: Any) -> bool:  # noqa: ANN401
    return math.prod(operand.shape) > FEW_ELEMENTS or len(operand.shape) > MOST_DIMS


def _print_totals(entries: Sequence[OperatorEntry]) -> None:
    usable = [entry for entry in entries if entry.samples]
    samples = [sample for entry in usable for sample in entry.samples]
    gradients = sum(entry.gradient for entry in usable)
    print(f"{len(usable)} of {len(entries)} entries are usable, {gradients} with gradients")
    print(f"{len(samples)} samples, {sum(len(entry.errors) for entry in usable)} error inputs")
    for what in ("forms", "dtypes", "mixed"):
        counts = Counter(value for sample in samples for value in getattr(sample, what))
        print(f"{what}: {', '.join(f'{name} {count}' for name, count in counts.most_common())}")
    for entry in entries:
        if entry.excluded:
            print(f"excluded: {entry.name}: {entry.excluded}")


if __name__ == "__main__":
    sys.exit(main())
