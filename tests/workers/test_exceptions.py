"""An exception as a failure: a refusal or a mistake, with what DTensor wraps, or the source line."""

from collections.abc import Callable

import pytest
from installed_packages import needs

from difftest.ground.errors import UnsupportedError
from difftest.judge.outcome import Failure, Symptom
from difftest.judge.stage import Stage

pytestmark = pytest.mark.slow
needs("torch", reason="needs torch: pip install 'difftest[xla]'")

import torch  # noqa: E402

from workers.exceptions import explain, without_package  # noqa: E402

OPERATOR = "Op(op=aten.convolution.default, args_schema=Spec(S(0) on (25, 6, 6)))"


def explained(fail: Callable[[], object]) -> Failure:
    with pytest.raises(Exception) as raised:  # noqa: PT011  any
        fail()
    return explain(raised.value, Stage.FORWARD, 0, 0)


def propagated(cause: Exception | None, message: str) -> Callable[[], object]:
    """Fails as DTensor's dispatcher does when the rule of an operator raises `cause`."""

    def fail() -> None:
        raise RuntimeError(message) from cause

    return fail


@pytest.mark.parametrize(
    ("cause", "symptom"),
    [
        (IndexError("tuple index out of range"), Symptom.EXCEPTION),
        (AssertionError(), Symptom.EXCEPTION),
        (RuntimeError("Attempted to flatten unevenly sharded dimension 0"), Symptom.CAPABILITY),
        (None, Symptom.CAPABILITY),
    ],
)
def test_what_dtensor_wraps_decides_between_a_refusal_and_a_mistake(
    cause: Exception | None, symptom: Symptom
) -> None:
    assert explained(propagated(cause, f"Sharding propagation failed for {OPERATOR}")).symptom is symptom


def test_the_cause_that_dtensor_wraps_is_in_the_message() -> None:
    text = f"Sharding propagation failed on op {OPERATOR}."
    wrapped = propagated(IndexError("tuple index out of range"), f"{text}\nError: tuple index out of range")
    assert explained(wrapped).message == f"{text} IndexError: tuple index out of range"


def test_a_first_line_that_ends_with_a_colon_is_followed_by_the_next_one() -> None:
    first, second = (
        "backend='a_compiler' raised:",
        "NotImplementedError: operator 'aten::sinc.out' is missing",
    )
    assert explained(propagated(None, f"{first}\n  {second}\nA hint.")).message == f"{first} {second}"
    assert explained(propagated(None, "nothing follows:")).message == "nothing follows:"


def test_what_fails_while_it_is_traced_is_what_eager_code_raises() -> None:
    def fail(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.view(7)

    eager, traced = (
        explained(lambda function=function: function(torch.ones(3)))  # type: ignore[misc]
        for function in (fail, torch.compile(fail, backend="eager"))
    )
    assert "is invalid for input of size 3" in eager.message
    assert (traced.kind, traced.message) == (eager.kind, eager.message)
    assert "TorchRuntimeError" in traced.log


@pytest.mark.parametrize("words", ["[Stage 3] failed to run forward", "Failed to run stage backward input"])
def test_what_a_stage_of_a_pipeline_raises_is_not_hidden_by_the_schedule(words: str) -> None:
    failure = explained(propagated(KeyError("x"), f"\n            {words}:\n            args: ()"))
    assert (failure.kind, failure.message) == ("KeyError", "'x'")
    assert words in failure.log


def test_what_a_compiler_behind_dynamo_raises_is_not_hidden_by_its_wrapper() -> None:
    def refuses(_graph: torch.fx.GraphModule, _inputs: object) -> Callable[..., object]:
        raise KeyError  # without a message

    failure = explained(lambda: torch.compile(torch.sin, backend=refuses)(torch.ones(3)))
    assert failure.kind == "KeyError"


def test_an_assertion_without_a_message_has_its_source_line() -> None:
    def fail() -> None:
        raise AssertionError  # as `assert` does, which pytest would give a message

    failure = explained(fail)
    assert failure.kind == "AssertionError"
    assert failure.message.startswith("no message; raised by: raise AssertionError")


def test_only_the_first_line_of_another_message_is_kept() -> None:
    failure = explained(propagated(KeyError("x"), "first\nsecond"))
    assert (failure.symptom, failure.message) == (Symptom.EXCEPTION, "first")


def test_a_missing_optional_package_is_a_refusal_and_a_required_one_a_broken_installation() -> None:
    absent = ModuleNotFoundError("No module named 'no_flax'", name="no_flax")
    refusal = without_package(absent, ("torch",))
    assert isinstance(refusal, UnsupportedError)
    assert str(refusal) == "no_flax is not installed here (pip install no_flax): No module named 'no_flax'"
    with pytest.raises(OSError, match=r"the installation is broken: no_flax is not installed here"):
        without_package(absent, ("no_flax.interop",))
    other = RuntimeError("shapes differ")
    assert without_package(other, ("torch",)) is other
