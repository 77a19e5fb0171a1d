"""What FSDP is told, as Python: its options, what it gathers by itself, and when it reduces gradients."""

from collections.abc import Iterator, Mapping

from difftest.cases import gathered
from difftest.cases.case import Case
from difftest.cases.feature import of
from difftest.cases.features import mixed_precision
from difftest.cases.script_values import python
from reports.reproducer.spelling import index


def gathered_alone(case: Case) -> Iterator[str]:
    """The subscripts of the modules that FSDP gathers alone, innermost first."""
    return map(index, gathered.gathered_alone(case))


def gathered_together(case: Case) -> str:
    """The list of the modules that FSDP gathers as one group; empty where there is none."""
    modules = ", ".join(f"model{index(path)}" for path in gathered.gathered_together(case))
    return modules and f"[{modules}]"


def told(case: Case) -> Iterator[str]:
    """The modules that are told what the case's `sharding` says, one of every group."""
    yield from (f"model{one}" for one in gathered_alone(case))
    yield from (f"model{index(path)}" for path in gathered.gathered_together(case)[:1])
    yield "model"


def axes_apart(case: Case) -> Mapping[str, str]:
    """The axis over which FSDP shards each layer, by its subscript, where it is not the same for all."""
    return {index(path): axis for path, axis in gathered.axes_apart(case).items()}


def flattened(case: Case) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The names and sizes of the axes of a mesh, the last two of which become the axis that shards."""
    axes = case.layout.mesh.split(case.layout.mesh.names[-1])
    return tuple(axes), tuple(axes.values())


def sharding(case: Case, *, outermost: bool) -> str:
    """The options of `fully_shard` that are not at their defaults, as further arguments."""
    options = []
    if case.sharded_by.kept_in_step:
        options.append("reshard_after_forward=False")
    elif case.sharded_by.reshard_after_forward is not None:
        options.append(f"reshard_after_forward={python(case.sharded_by.reshard_after_forward)}")
    if mixed := of(case, mixed_precision.Options):
        output = ", output_dtype=torch.float32" if mixed.widens(outermost=outermost) else ""
        dtypes = f"param_dtype=torch.bfloat16, reduce_dtype=torch.{mixed.reduce}{output}"
        options.append(f"mp_policy=MixedPrecisionPolicy({dtypes})")
    if case.sharded_by.offload:
        options.append("offload_policy=CPUOffloadPolicy(pin_memory=False)")
    return "".join(f", {one}" for one in options)


def flat_precision(case: Case) -> str:
    """The option of FSDP1 for mixed precision, as a further entry of a dictionary; empty without it."""
    mixed = of(case, mixed_precision.Options)
    if mixed is None:
        return ""
    dtypes = f"param_dtype=torch.bfloat16, reduce_dtype=torch.{mixed.reduce}"
    return f', "mixed_precision": MixedPrecision({dtypes})'


def ordered(case: Case) -> Iterator[str]:
    """The calls that say what FSDP gathers ahead, what not in the backward pass, and what it keeps."""
    for path in gathered.resting(case):
        yield f"model{index(path)}.set_unshard_in_backward(False)"
    for way, at, ahead in gathered.prefetched(case):
        yield f"model{index(at)}.set_modules_to_{way}_prefetch([model{index(ahead)}])"
    if case.sharded_by.kept_in_step:
        yield from (f"{group}.set_reshard_after_backward(False)" for group in told(case))


def behind_backward(case: Case) -> tuple[str, ...]:
    """The lines that shard parameters again behind the backward passes, where these leave them gathered."""
    if not case.sharded_by.kept_in_step:
        return ()
    return "for group in model.modules():", "    if isinstance(group, FSDPModule):", "        group.reshard()"


def divides(case: Case) -> str:
    """The method that sets FSDP's divide factor."""
    older = case.sharded_by.by_older_name
    return "set_reduce_scatter_divide_factor" if older else "set_gradient_divide_factor"


def widened_after(case: Case) -> bool:
    """Whether the output of FSDP's mixed precision is made float32 behind the model."""
    mixed = of(case, mixed_precision.Options)
    return mixed is not None and mixed.output == "loss"


def synced(case: Case) -> str:
    """How FSDP is told which accumulation parts' gradients it reduces; empty where it is all of them."""
    methods = {"last": "set_requires_gradient_sync", "scattered": "set_requires_all_reduce", "every": ""}
    return methods[case.sharded_by.synced]
