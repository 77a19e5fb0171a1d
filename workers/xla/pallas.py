"""Pallas kernels on devices other than a TPU: the real kernels, interpreted by JAX.

torch_xla's own wrappers call them. torch_xla reaches a Pallas kernel by two functions: `trace_pallas` makes a
payload of it, `_xla_tpu_custom_call` runs a payload. On a TPU both stay as they are. Elsewhere the payload
becomes the traced `pallas_call` itself, and the custom call becomes that equation bound with
`interpret=True`: the kernel's own body, block by block over its own grid, as an HLO loop that XLA compiles.
Everything around it (the wrapper, its autograd function, manual sharding, the partitioner) is unchanged.

A kernel is traced where torch_xla traces it, behind its import guard, so that JAX starts when and how it does
on a TPU.
"""

import inspect
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cache
from importlib.metadata import requires
from typing import TYPE_CHECKING, Any, TypeAlias

from difftest.ground import installed

if TYPE_CHECKING:
    from torch import Tensor

NATIVE = "TPU"
TRACE_ARGUMENTS = ("kernel", "args", "static_argnums", "static_argnames", "use_cache", "kwargs")

Kernel: TypeAlias = Callable[..., Any]
"""A `pallas_call` as a function of its operands."""

_kernels: dict[Hashable, Kernel] = {}
"""By the arguments of their trace.

A function traced again would be another computation, and the next step another graph.
"""


def install(device: str) -> str:
    """Makes Pallas kernels run on `device`; the result says how: `compiled` or `interpreted`.

    `NotImplementedError` with the reason where the interpretation cannot be installed.
    """
    if device == NATIVE:
        return "compiled"
    if reason := refusal(device):
        raise NotImplementedError(reason)
    import torch_xla
    from torch_xla._internal.jax_workarounds import requires_jax
    from torch_xla.experimental import custom_kernel

    trace = getattr(custom_kernel, "trace_pallas", None)
    if (
        trace is None
        or not hasattr(torch_xla._XLAC, "_xla_tpu_custom_call")  # noqa: SLF001
        or tuple(inspect.signature(trace).parameters) != TRACE_ARGUMENTS
    ):
        signature = f"trace_pallas({', '.join(TRACE_ARGUMENTS)})"
        msg = f"torch_xla {torch_xla.__version__} traces Pallas kernels by another door than {signature}"
        raise NotImplementedError(msg)
    custom_kernel.trace_pallas = requires_jax(_trace)
    torch_xla._XLAC._xla_tpu_custom_call = _call  # noqa: SLF001
    return "interpreted"


def refusal(device: str) -> str | None:
    """Why Pallas kernels cannot run on `device` with what is installed here, or None.

    Where torch_xla is not installed here, that of the workers decides. The interpretation is known to work
    with the JAX that torch_xla itself requires, in its extra `pallas`.
    """
    if device == NATIVE or not (torch_xla := installed.version("torch_xla")):
        return None
    named = dict(
        need.partition(";")[0].strip().split("==")
        for need in requires("torch_xla") or ()
        if "==" in need and "pallas" in need
    )
    for name in ("jax", "jaxlib"):
        if installed.version(name) != named.get(name, ""):
            has, wants = installed.version(name) or "none", named.get(name, "none that it names")
            return (
                f"Pallas kernels on {device} are interpreted by the {name} that torch_xla {torch_xla} asks "
                f"for, {wants}; installed: {has}"
            )
    return None


def _trace(
    kernel: Callable[..., Any],
    *args: Any,  # noqa: ANN401  tensors, structures of shapes, and constants
    static_argnums: Sequence[int] | None = None,
    static_argnames: Sequence[str] | None = None,
    use_cache: bool = False,  # noqa: ARG001  torch_xla's signature; the cache here is always on
    **constants: Any,  # noqa: ANN401
) -> "tuple[Kernel, list[Tensor]]":
    """As `trace_pallas`: a payload, which is the traced call here, and the tensors among the arguments."""
    import jax
    import torch
    from torch_xla.experimental.custom_kernel import to_jax_shape_dtype_struct

    described = tuple(to_jax_shape_dtype_struct(a) if torch.is_tensor(a) else a for a in args)
    key = (
        kernel,
        described,
        tuple(static_argnums or ()),
        tuple(static_argnames or ()),
        tuple(sorted(constants.items())),
    )
    if key not in _kernels:
        traced = jax.jit(kernel, static_argnums=static_argnums, static_argnames=static_argnames).trace(
            *described, **constants
        )
        _kernels[key] = _interpreted(traced.jaxpr.jaxpr)
    return _kernels[key], [a for a in args if torch.is_tensor(a)]


def _interpreted(jaxpr: Any) -> Kernel:  # noqa: ANN401
    """The only `pallas_call` in `jaxpr` as a function of its operands.

    What precedes the call, torch_xla does by itself.
    """
    calls = list(_calls(jaxpr))
    if len(calls) != 1 or "interpret" not in calls[0].params:
        msg = f"a Pallas kernel is one pallas_call that can be interpreted; this one has {len(calls)}"
        raise NotImplementedError(msg)
    (call,) = calls
    parameters = {**call.params, "interpret": True}
    return lambda *operands: tuple(call.primitive.bind(*operands, **parameters))


def _calls(jaxpr: Any) -> Iterator[Any]:  # noqa: ANN401
    from jax.extend.core import ClosedJaxpr

    for equation in jaxpr.eqns:
        if equation.primitive.name == "pallas_call":
            yield equation
            continue
        for inner in equation.params.values():
            if isinstance(inner, ClosedJaxpr):
                yield from _calls(inner.jaxpr)


def _call(
    operands: "Sequence[Tensor]", kernel: Kernel, shapes: Sequence[Sequence[int]], dtypes: Sequence[Any]
) -> "list[Tensor]":
    """As `_xla_tpu_custom_call`.

    `ValueError` where the kernel's results have other shapes or types than the caller expects.
    """
    from torch_xla.experimental.custom_kernel import to_jax_shape_dtype_struct

    results = _computation(kernel, tuple(to_jax_shape_dtype_struct(operand) for operand in operands))(
        list(operands)
    )
    expected = [(tuple(shape), dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
    if (actual := [(tuple(result.shape), result.dtype) for result in results]) != expected:
        msg = f"the kernel gives {actual}; its caller expects {expected}"
        raise ValueError(msg)
    return results


@cache
def _computation(kernel: Kernel, operands: tuple[Any, ...]) -> "Callable[[list[Tensor]], list[Tensor]]":
    """The kernel on operands of these shapes as an XLA computation in torch_xla's graph.

    It is `call_jax` without the parts for which that needs torchax.
    """
    from torch_xla._internal.jax_workarounds import jax_env_context, maybe_get_jax
    from torch_xla.core import xla_builder

    jax = maybe_get_jax()
    with jax_env_context():
        module = jax.jit(kernel, keep_unused=True).lower(*operands).compiler_ir("hlo")
    computation = xla_builder.computation_from_module_proto("pallas", module.as_serialized_hlo_module_proto())
    run: Callable[[list[Tensor]], list[Tensor]] = xla_builder.xla_computation_as_func(computation, "pallas")
    return run
