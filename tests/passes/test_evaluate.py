"""HLO as text, and its numbers without XLA."""

# ruff: noqa: E501  lines of HLO

from pathlib import Path

import numpy as np
import pytest

from difftest.passes.arrays import NotEvaluatedError
from difftest.passes.evaluate import evaluate
from difftest.passes.guilty import judge
from difftest.passes.hlo import UnreadableError
from difftest.passes.hlo_text import parse, without_origins, written
from difftest.passes.module_runs import ModuleRun, drawn
from difftest.passes.shardings import sharding_of
from difftest.passes.snapshots import Dump, Snapshot, announced, read_dumps

ADD = """
%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}
"""


def module(shape: str, lines: str, *, partitions: int = 1, more: str = "") -> str:
    """A module whose entry has these lines; the last one is the result, called `r`."""
    header = f"HloModule test, num_partitions={partitions}" if partitions > 1 else "HloModule test"
    body = "\n".join(f"  {line.strip()}" for line in lines.strip().splitlines())
    return f"{header}\n{more}\nENTRY %main () -> {shape} {{\n{body.replace('  %r =', '  ROOT %r =')}\n}}\n"


def result(text: str, *arguments: np.ndarray, devices: int = 1) -> list[np.ndarray]:
    return evaluate(parse(text), [[each] * devices for each in arguments])


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("%r = f32[2]{0} add(%x, %x)", [2, 4]),
        ("%r = f32[2]{0} reverse(%x), dimensions={0}", [2, 1]),
        ("%z = f32[] constant(9)\n%r = f32[4]{0} pad(%x, %z), padding=1_0_1", [9, 1, 9, 2]),
        ("%z = f32[] constant(9)\n%r = f32[1]{0} pad(%x, %z), padding=0_-1", [1]),
        ("%z = f32[] constant(0)\n%r = f32[] reduce(%x, %z), dimensions={0}, to_apply=%sum", 3),
        ("%i = s32[] constant(7)\n%r = f32[1]{0} dynamic-slice(%x, %i), dynamic_slice_sizes={1}", [2]),
        ("%r = f32[2,2]{1,0} broadcast(%x), dimensions={1}", [[1, 2], [1, 2]]),
        ("%r = f32[] dot(%x, %x), lhs_contracting_dims={0}, rhs_contracting_dims={0}", 5),
        ("%r = s32[2]{0} convert(%x)", [1, 2]),
        ("%t = (f32[2]{0}, f32[2]{0}) tuple(%x, %x)\n%r = f32[2]{0} add(%t#0, %t#1)", [2, 4]),
        (
            "%i = s32[2]{0} iota(), iota_dimension=0\n%r = pred[2]{0} compare(%i, %i), direction=LT",
            [False] * 2,
        ),
        ("%y = f32[1,2]{0,1} reshape(%x)\n%r = f32[2,1]{1,0} bitcast(%y)", [[1], [2]]),
        (
            "%s = s32[2]{0} constant({-7, 7})\n%t = s32[2]{0} constant({2, 0})\n%r = s32[2]{0} divide(%s, %t)",
            [-3, -1],
        ),
    ],
)
def test_instructions_compute_what_their_definition_says(lines: str, expected: object) -> None:
    text = module("f32[2]", f"%x = f32[2]{{0}} parameter(0)\n{lines}", more=ADD)
    assert result(text, np.array([1, 2], "f"))[0].tolist() == expected


ALL_REDUCE = """
%i = u32[] partition-id()
%f = f32[] convert(%i)
%r = f32[] all-reduce(%f), channel_id=1, to_apply=%sum, replica_groups={{0,1},{2,3}}, use_global_device_ids=true
"""
ALL_GATHER = """
%i = u32[] partition-id()
%f = u32[1]{0} reshape(%i)
%r = u32[2]{0} all-gather(%f), channel_id=1, replica_groups=[2,2]<=[2,2]T(1,0), dimensions={0}, use_global_device_ids=true
"""
PERMUTE = """
%i = u32[] partition-id()
%r = u32[] collective-permute(%i), channel_id=1, source_target_pairs={{0,1},{1,2}}
"""


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("%r = u32[] partition-id()", [0, 1, 2, 3]),
        (ALL_REDUCE, [1, 1, 5, 5]),
        (ALL_GATHER, [[0, 2], [1, 3], [0, 2], [1, 3]]),
        (PERMUTE, [0, 0, 1, 0]),
        (ALL_REDUCE.replace("{{0,1},{2,3}}", "mesh['a'=2,'b'=2] {'a'}"), [2, 4, 2, 4]),
    ],
)
def test_collectives_see_what_all_devices_hold(lines: str, expected: list[object]) -> None:
    made = evaluate(parse(module("f32[]", lines, partitions=4, more=ADD)), [])
    assert [each.tolist() for each in made] == expected


def test_a_loop_runs_until_its_condition_is_false() -> None:
    more = """
%condition (s: (s32[], s32[])) -> pred[] {
  %s = (s32[], s32[]) parameter(0)
  %n = s32[] get-tuple-element(%s), index=0
  %five = s32[] constant(5)
  ROOT %less = pred[] compare(%n, %five), direction=LT
}

%body (t: (s32[], s32[])) -> (s32[], s32[]) {
  %t = (s32[], s32[]) parameter(0)
  %n = s32[] get-tuple-element(%t), index=0
  %one = s32[] constant(1)
  %next = s32[] add(%n, %one)
  %total = s32[] get-tuple-element(%t), index=1
  %more = s32[] add(%total, %next)
  ROOT %after = (s32[], s32[]) tuple(%next, %more)
}
"""
    lines = """
        %zero = s32[] constant(0)
        %begin = (s32[], s32[]) tuple(%zero, %zero)
        %end = (s32[], s32[]) while(%begin), condition=%condition, body=%body
        %r = s32[] get-tuple-element(%end), index=1
    """
    assert result(module("s32[]", lines, more=more))[0] == 15


def test_what_cannot_be_evaluated_or_read_is_named() -> None:
    with pytest.raises(NotEvaluatedError, match="rng-bit-generator"):
        result(module("u32[2]", "%k = u64[2]{0} constant({1, 2})\n%r = u32[2]{0} rng-bit-generator(%k)"))
    with pytest.raises(UnreadableError, match="it is no HLO module"):
        parse("print('no')")
    with pytest.raises(UnreadableError, match="left out"):
        result(module("f32[9]", "%r = f32[9]{0} constant({...})"))


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("{devices=[2,2]<=[4]}", (3, 5)),
        ("{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}", (3, 2)),
        ("{devices=[1,4]0,2,1,3}", (2, 7)),
        ("{replicated}", (2, 2)),
        ("{mesh['a'=2,'b'=2], [{'b'}, {}]}", (3, 2)),
        ("{mesh['a'=2,'b'=2], [{'b', 'a'}, {}], replicated={}}", (5, 2)),
        ("{mesh[], replicated}", (5, 2)),
    ],
)
def test_shards_joined_are_the_array_again_in_every_copy(text: str, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape)).reshape(shape)
    sharding = sharding_of(text, 2)
    copies = sharding.joined(sharding.cut(array, 4), shape)
    assert [copy.tolist() for copy in copies] == [array.tolist()] * len(copies)


def test_the_shards_of_a_mesh_are_those_of_its_devices() -> None:
    named, listed = (
        sharding_of(text, 2).cut(np.arange(8).reshape(4, 2), 4)
        for text in ("{mesh['a'=2,'b'=2], [{'b', 'a'}, {}]}", "{devices=[4,1]<=[2,2]T(1,0)}")
    )
    assert [part.tolist() for part in named] == [part.tolist() for part in listed]
    with pytest.raises(UnreadableError, match="no sharding"):
        sharding_of("{mesh['a'=4], [{'a':(1)2}]}", 1)


def test_a_module_written_is_read_as_the_same() -> None:
    lines = """
        %x = f32[2]{0} parameter(0)
        %z = f32[] constant(0)
        %r = f32[] reduce(%x, %z), dimensions={0}, to_apply=%sum
    """
    first = parse(module("f32[]", lines, more=ADD))
    again = parse(written(first, first.entry, "again", 1))
    assert again.computations == first.computations


def test_origins_are_left_out_of_a_text() -> None:
    added = "%r = f32[] add(%x, %x)"
    line = (
        f'{added}, metadata={{op_name="a{{b}}" source_file="/home/me/x.py"}}, frontend_attributes={{a="b"}}'
    )
    assert without_origins(line) == added
    tables = """
FileNames
1 "/home/me/x.py"

FunctionNames
1 "<module>"

FileLocations
1 {file_name_id=1 function_name_id=1 line=1 end_line=1 column=0 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

"""
    text = module("f32[]", f"%x = f32[] parameter(0)\n{line}")
    header, newline, rest = text.partition("\n")
    with_tables = f"{header}\n{tables}{newline}{rest}"
    assert (
        without_origins(with_tables).split() == module("f32[]", f"%x = f32[] parameter(0)\n{added}").split()
    )


def test_shard_map_and_other_custom_calls_are_refused_by_name() -> None:
    call = "%x = f32[2]{0} parameter(0)\n%r = f32[2]{0} custom-call(%x), custom_call_target="
    for target in ("SPMDFullToShardShape", "SPMDShardToFullShape"):
        with pytest.raises(NotEvaluatedError, match=f"custom-call of {target}, as shard_map writes it"):
            result(module("f32[2]", f'{call}"{target}"'), np.zeros(2, "f"))
    with pytest.raises(NotEvaluatedError, match="custom-call of other is not evaluated"):
        result(module("f32[2]", f'{call}"other"'), np.zeros(2, "f"))


# ------------------------------------------------------------------ the pass

SUM = "%x = f32[2]{0} parameter(0)\n%y = f32[2]{0} parameter(1)\n%r = f32[2]{0} add(%x, %y)"


def dump(*stages: tuple[str, str, str]) -> Dump:
    """A dump of the sum, and of what each stage (pass, next pass, lines) makes of it."""
    rest = [
        Snapshot(f"{number:04}.{after}", "simplification", after, before, module("f32[2]", lines))
        for number, (after, before, lines) in enumerate(stages)
    ]
    return Dump("module_0001.test", (Snapshot("first", "", "", "dce", module("f32[2]", SUM)), *rest))


def calls() -> list[ModuleRun]:
    return list(drawn(parse(module("f32[2]", SUM))))


def test_the_first_wrong_module_names_its_pass_and_the_one_before_is_the_control() -> None:
    wrong = SUM.replace("add", "subtract")
    made = judge(dump(("dce", "cse", SUM), ("cse", "algsimp", wrong), ("algsimp", "", wrong)), calls())
    assert (made.kind, made.guilty, made.control) == (
        "pass",
        "cse",
        "with ordinary numbers, the module is right after dce",
    )
    assert made.before is not None
    assert made.before.after == "dce"


def test_a_pipeline_inside_of_a_pass_is_that_pass() -> None:
    wrong = SUM.replace("add", "subtract")
    made = judge(dump(("dce", "spmd-partitioning", SUM), ("pipeline-start", "cse", wrong)), calls())
    assert made.guilty == "spmd-partitioning"


def test_passes_that_keep_the_result_accuse_nobody() -> None:
    turned = SUM.replace("add(%x, %y)", "add(%y, %x)")
    made = judge(dump(("dce", "cse", SUM), ("cse", "", turned)), calls())
    assert (made.kind, made.accuses) == ("frontend", False)


def test_a_pass_is_not_accused_where_one_before_it_was_not_evaluated() -> None:
    odd = SUM.replace("add", "rng-bit-generator")
    made = judge(dump(("dce", "cse", odd), ("cse", "", SUM.replace("add", "subtract"))), calls())
    assert (made.kind, made.guilty) == ("unclear", "")
    assert "rng-bit-generator" in made.reason


def test_xlas_own_numbers_tell_the_frontend_from_code_generation() -> None:
    given = (np.array([1, 2], "f"), np.array([3, 4], "f"))
    fair, wrong = (ModuleRun(arguments=given, results=(np.array(each, "f"),)) for each in ([4, 6], [4, 7]))
    assert judge(dump(("dce", "", SUM)), [fair]).kind == "frontend"
    assert judge(dump(("dce", "", SUM)), [wrong]).kind == "code generation"


def test_rounding_accuses_nobody_and_a_strict_look_finds_two_roundoffs() -> None:
    given = (np.array([1, 2], "f"), np.array([3, 4], "f"))
    near = np.nextafter(np.nextafter(np.array([4, 6], "f"), np.float32(9)), np.float32(9))
    call = ModuleRun(arguments=given, results=(near,))
    assert judge(dump(("dce", "", SUM)), [call]).kind == "frontend"
    assert judge(dump(("dce", "", SUM)), [call], strict=True).kind == "code generation"


def test_dumps_are_read_in_the_order_of_the_passes(tmp_path: Path) -> None:
    text = module("f32[2]", SUM)
    names = ("before_optimizations", "0001.b.after_cse.before_pipeline-end", "0000.b.after_dce.before_cse")
    for name in (*names, "cpu_after_optimizations"):
        (tmp_path / f"module_0003.jit_f.{name}.txt").write_text(text)
    (made,) = read_dumps(tmp_path)
    assert [each.after for each in made.snapshots] == ["", "dce", "cse"]
    assert (made.name, made.finished) == ("module_0003.jit_f", True)


def test_the_log_names_the_pass_that_ran_last() -> None:
    log = "\n".join(
        f"I1127 16:06:43.750078 13820 hlo_pass_pipeline.cc:{line}]   HLO pass {name}"
        for line, name in ((1, "dce"), (2, "spmd-partitioning"))
    )
    assert announced(f"{log}\nF1127 spmd_partitioner_util.h:127] Check failed: x") == "spmd-partitioning"
