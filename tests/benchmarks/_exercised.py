"""What XLA's passes did with a module: what each wrote or removed, and how the partitioner resharded."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from difftest.passes.hlo import Computation, Module, UnreadableError
from difftest.passes.smallest import OF_SEVERAL
from difftest.passes.snapshots import Dump, guilty_name

PARTITIONERS = ("spmd-partitioning", "shardy-xla")
COLLECTIVES = tuple(opcode for opcode in OF_SEVERAL if not opcode.endswith("-id"))


def exercised(dump: Dump) -> Iterator[str]:
    """The passes that changed a module, and what each did; a text may come several times."""
    for before, after in pairwise(dump.snapshots):
        if before.text == after.text:
            continue
        name = guilty_name(before, after)
        try:
            old, new = before.module, after.module
        except UnreadableError:
            continue
        yield f"pass {name}"
        were, are = _opcodes(old), _opcodes(new)
        yield from (f"{name} writes {opcode}" for opcode in are - were)
        yield from (f"{name} removes {opcode}" for opcode in were - are)
        if name in PARTITIONERS:
            for computation in new.computations.values():
                yield from _reshards(computation, new.partitions)


def _opcodes(module: Module) -> Counter[str]:
    return Counter(one.opcode for one in module.instructions())


def _reshards(computation: Computation, partitions: int) -> Iterator[str]:
    """The collectives, each with what it moves, what takes it, and whether it is among all devices.

    What is cut unevenly is padded or masked before it is moved, so that it comes from such an opcode.
    """
    for one in computation.instructions:
        if one.opcode not in COLLECTIVES:
            continue
        among = one.attributes.get("replica_groups", one.attributes.get("source_target_pairs", ""))
        whole = "all" if among.count("{") == 2 or among.startswith(f"[1,{partitions}]") else "some"
        yield from (
            f"{one.opcode} of {computation.by_name[name].opcode} among {whole}" for name in one.operands
        )
        takers = {each.opcode for each in computation.instructions if one.name in each.operands}
        yield from (f"{one.opcode} for {opcode}" for opcode in takers)
