"""What a framework lacks for a program is a line of the support table; an error inside it is a finding."""

from dataclasses import replace

import pytest
from sample_programs import a_program, a_trace, an_operator
from samples import a_case, a_failure, oracle

from difftest.judge.capability import Lack
from difftest.judge.comparator import Comparison, compare
from difftest.judge.events import Events, HostOperator
from difftest.judge.outcome import Outcome, Symptom

PROGRAM = a_program(an_operator("cumsum"))
NO_STRATEGY = "Operator aten.cumsum.default does not have a sharding strategy registered."


def judged(actual: Outcome) -> Comparison:
    return compare(PROGRAM, "torch_dtensor", "torch", a_trace(PROGRAM, exact=True), actual)


def refusal(message: str = NO_STRATEGY, symptom: Symptom = Symptom.CAPABILITY) -> Comparison:
    return judged(a_failure(symptom, message=message, kind="NotImplementedError", operator="cumsum"))


def test_a_refusal_of_a_program_is_unsupported_and_says_what_is_lacking() -> None:
    comparison = refusal()
    assert (comparison.verdict, comparison.divergences) == ("unsupported", ())
    reason = "Operator OP does not have a sharding strategy registered."
    assert comparison.lacks == (Lack(operator="cumsum", overload="cumsum.default", reason=reason),)
    assert comparison.reason_kind == reason
    assert not comparison.decides


def test_a_refusal_of_an_ordinary_case_stays_a_divergence() -> None:
    case = a_case()
    comparison = compare(case, "torch_dtensor", "torch", oracle(case), a_failure(Symptom.CAPABILITY))
    assert comparison.verdict == "diverge"
    assert comparison.lacks == ()


def test_a_missing_deterministic_algorithm_is_never_a_finding() -> None:
    message = "embedding_bag_backward_cuda_max does not have a deterministic implementation, but you set"
    case = a_case()
    failure = a_failure(Symptom.CAPABILITY, message=message, kind="RuntimeError")
    comparison = compare(case, "torch_fsdp", "torch", oracle(case), failure)
    assert (comparison.verdict, comparison.divergences) == ("unsupported", ())
    assert [(lack.operator, lack.overload) for lack in comparison.lacks] == [
        ("", "embedding_bag_backward_cuda_max")
    ]


@pytest.mark.parametrize(
    "message",
    [
        'tensor.size() INTERNAL ASSERT FAILED at "x.cpp":12, please report a bug: sizes are not supported',
        "Check failed: dim < rank is not supported",
        "'<' not supported between instances of 'DTensor' and 'int'",
        "Sharding propagation failed for Op(x) RuntimeError: Attempting to broadcast a dimension of length 6",
    ],
)
def test_an_error_inside_a_framework_is_no_refusal_whatever_it_says(message: str) -> None:
    assert refusal(message).verdict == "diverge"


@pytest.mark.parametrize(
    "message",
    [
        "UNIMPLEMENTED: complex convolution",
        "\"cumsum_cpu\" not implemented for 'Half'",
        "Could not run 'aten::cumsum' with arguments from the 'XLA' backend.",
    ],
)
def test_a_refusal_that_came_as_an_exception_is_unsupported(message: str) -> None:
    assert refusal(message, Symptom.EXCEPTION).verdict == "unsupported"


def test_a_crash_or_a_hang_is_never_a_refusal() -> None:
    for symptom in (Symptom.CRASH, Symptom.HANG):
        assert refusal("not implemented", symptom).verdict == "diverge"


def test_an_operator_that_runs_on_the_host_is_lacking_on_the_device() -> None:
    events = Events(device="xla", host_operators={"aten::cumsum": HostOperator(2)})
    comparison = judged(a_trace(PROGRAM, events=events))
    assert comparison.verdict == "unsupported"
    assert comparison.lacks == (
        Lack(operator="cumsum", overload="cumsum", reason="OP falls back to the host"),
    )


def test_a_wrong_result_is_a_divergence_even_where_something_is_lacking() -> None:
    events = Events(device="xla", host_operators={"aten::cumsum": HostOperator(2)})
    comparison = judged(a_trace(PROGRAM, by=1.0, events=events))
    assert comparison.verdict == "diverge"
    assert [divergence.check for divergence in comparison.divergences] == ["loss"]
    assert comparison.lacks


def test_a_chain_whose_run_does_not_say_which_operator_failed_names_none() -> None:
    chain = a_program(an_operator("cumsum"), an_operator("sin"))
    failure = replace(a_failure(Symptom.CAPABILITY, message="not implemented for"), operator="")
    comparison = compare(chain, "torch_dtensor", "torch", a_trace(chain, exact=True), failure)
    assert [lack.operator for lack in comparison.lacks] == [""]


@pytest.mark.parametrize("name", ["cumsum", "max_pool2d_with_indices", "special_i1"])
def test_a_reason_has_no_number_of_an_operator_s_name(name: str) -> None:
    message = f"Operator aten.{name}.default does not have a sharding strategy registered."
    assert [lack.reason for lack in refusal(message).lacks] == [
        NO_STRATEGY.replace("aten.cumsum.default", "OP")
    ]


def test_the_arguments_of_an_operator_are_no_part_of_a_reason() -> None:
    call = "Op(op=aten.nonzero.default, args_schema=Spec(S(0) on (4,)) @ mesh: (2,))"
    comparison = refusal(f"Sharding propagation failed for {call} NotImplementedError: of dynamic shape")
    reason = "Sharding propagation failed for OP NotImplementedError: of dynamic shape"
    assert [lack.reason for lack in comparison.lacks] == [reason]
