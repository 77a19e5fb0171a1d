"""The table of which backend supports which path, on fake backends."""

from types import SimpleNamespace

from samples import a_case, tensor_parallel_case

from difftest.cases.case import Case
from difftest.jobs.proof.support_table import PathSupport, markdown, table

CASES = [tensor_parallel_case(), a_case(), a_case(seed=1), a_case(seed=2), a_case(seed=3)]


def odd(case: Case) -> str | None:
    if case.path == "tensor_parallel":
        return "it cuts a parameter"
    return {1: "seed 1 is odd", 3: "seed 3 is odd"}.get(case.seed)


BACKENDS = {
    "any": SimpleNamespace(SIDE="xla", unsupported=lambda _case: None),
    "odd": SimpleNamespace(SIDE="torch", unsupported=odd),
}


def test_every_path_is_checked_on_every_backend() -> None:
    rows = table(CASES, BACKENDS)
    assert [(row.path, row.backend, row.supported, row.cases, row.word) for row in rows] == [
        ("data_parallel", "any", 4, 4, "yes"),
        ("data_parallel", "odd", 2, 4, "50%"),
        ("tensor_parallel", "any", 1, 1, "yes"),
        ("tensor_parallel", "odd", 0, 1, "no"),
    ]
    assert [row.reasons for row in rows] == [
        (),
        ("seed 1 is odd", "seed 3 is odd"),
        (),
        ("it cuts a parameter",),
    ]


def test_the_most_frequent_reason_comes_first() -> None:
    cases = [*CASES, a_case(seed=3, path="data_parallel", dtype="bfloat16")]
    assert table(cases, BACKENDS)[1].reasons == ("seed 3 is odd", "seed 1 is odd")


def test_percentages_are_never_rounded_to_all_or_none() -> None:
    words = [
        PathSupport(path="p", backend="b", supported=supported, cases=1000).word
        for supported in (0, 1, 999, 1000)
    ]
    assert words == ["no", "1%", "99%", "yes"]


def test_the_table_has_a_row_per_path_and_a_column_per_backend() -> None:
    assert markdown(table(CASES, BACKENDS)).splitlines() == [
        "| path | any | odd |",
        "|---|---|---|",
        "| data_parallel | yes | 50% |",
        "| tensor_parallel | yes | no |",
    ]
