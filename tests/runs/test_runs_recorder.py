"""The recorder in one process: it changes no number, and its sketches add up."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import difftest
from difftest.ground.errors import UsageError
from difftest.runs import layout
from difftest.runs.layout import BUCKETS
from difftest.runs.read import WholeTensor, read
from workers.runs import sketching
from workers.runs.sketching import Signs

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Block(nn.Module):
    """A block that may be computed again in the backward pass."""

    def __init__(self, again: str) -> None:
        super().__init__()
        self.norm, self.linear, self.act = nn.LayerNorm(16), nn.Linear(16, 16), nn.GELU()
        self.again = again

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        if self.again and self.training:
            return checkpoint(self.inner, x, use_reentrant=self.again == "reentrant")  # type: ignore[no-any-return]
        return self.inner(x)

    def inner(self, x: Tensor) -> Tensor:  # noqa: D102
        changed: Tensor = self.act(self.linear(self.norm(x)))
        return x + changed


def model(again: str = "") -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(17, 16), Block(again), Block(again), nn.Linear(16, 17))


def train(  # noqa: PLR0913  what a test may want to choose
    out: Path | None,
    *,
    again: str = "",
    parts: int = 1,
    steps: int = 3,
    compiled: bool = False,
    dtype: torch.dtype = torch.float32,
    autocast: bool = False,
    **options: Any,  # noqa: ANN401
) -> list[Tensor]:
    """Trains with so many micro-batches; returns the parameters."""
    net = model(again).to(dtype)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    called: Any = torch.compile(net, backend="eager") if compiled else net
    recorder = difftest.record(called, optimizer, out=out, **options) if out else None
    for step in range(steps):
        tokens = torch.randint(17, (8, 5), generator=torch.Generator().manual_seed(step))
        mean = 0.0
        for part in tokens.chunk(parts):
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                loss = functional.cross_entropy(called(part).flatten(0, 1), ((part + 1) % 17).flatten())
            (loss / parts).backward()
            mean += float(loss.detach()) / parts
        optimizer.step()
        optimizer.zero_grad()
        if recorder:
            recorder.step(mean)
    if recorder:
        recorder.close()
    return [parameter.detach().clone() for parameter in net.parameters()]


def equal(one: list[Tensor], two: list[Tensor]) -> bool:
    return all(torch.equal(first, second) for first, second in zip(one, two, strict=True))


def owners(wholes: dict[Any, WholeTensor], kind: str) -> list[str]:
    return [owner + place for which, owner, place in wholes if which == kind]


@pytest.mark.parametrize("again", ["", "reentrant", "not reentrant"])
@pytest.mark.parametrize("parts", [1, 4])
def test_recording_changes_no_bit(tmp_path: Path, again: str, parts: int) -> None:
    assert equal(train(None, again=again, parts=parts), train(tmp_path / "run", again=again, parts=parts))


def test_a_compiled_training_changes_no_bit_and_is_recorded_at_its_edges(tmp_path: Path) -> None:
    assert equal(train(None, compiled=True), train(tmp_path / "run", compiled=True))
    wholes = read(tmp_path / "run").whole(1)
    assert owners(wholes, layout.OUTPUT) == [""]
    assert len(owners(wholes, layout.GRADIENT)) == len(owners(wholes, layout.UPDATED)) == 11
    train(tmp_path / "eager")
    assert difftest.compare(tmp_path / "eager", tmp_path / "run").status == 0


def test_every_module_and_parameter_is_recorded_in_the_order_of_computation(tmp_path: Path) -> None:
    train(tmp_path / "run")
    wholes = read(tmp_path / "run").whole(0)
    block = ["1.norm", "1.linear", "1.act", "1"]
    forward = ["0", *block, *(name.replace("1", "2") for name in block), "3", ""]
    assert owners(wholes, layout.OUTPUT) == forward
    assert sorted(owners(wholes, layout.OUTPUT_GRADIENT)) == sorted(forward)
    assert owners(wholes, layout.INPUT) == ["0"]
    assert len(owners(wholes, layout.START)) == 11


def test_gradients_of_outputs_name_the_innermost_modules_that_took_them(tmp_path: Path) -> None:
    train(tmp_path / "run", parts=2)
    wholes = read(tmp_path / "run").whole(1)
    users = {key[1]: whole.about.users for key, whole in wholes.items() if key[0] == layout.OUTPUT_GRADIENT}
    block = {"1.norm": ("1.linear",), "1.linear": ("1.act",), "1.act": (), "1": ("2.norm",)}
    assert users == {
        "0": ("1.norm",),
        **block,
        "2.norm": ("2.linear",),
        "2.linear": ("2.act",),
        "2.act": (),
        "2": ("3",),
        "3": (),
        "": (),
    }


@pytest.mark.parametrize("again", ["reentrant", "not reentrant"])
def test_recomputed_modules_are_recorded_once(tmp_path: Path, again: str) -> None:
    train(tmp_path / "plain")
    train(tmp_path / "again", again=again)
    one, two = (read(tmp_path / name).whole(1) for name in ("plain", "again"))
    assert {*one} == {*two}
    assert all(np.array_equal(one[key].sketch, two[key].sketch) for key in one)


def test_micro_batches_add_up_to_the_whole_batch(tmp_path: Path) -> None:
    train(tmp_path / "whole")
    train(tmp_path / "parts", parts=4)
    train(tmp_path / "noise", perturb=1)
    found = difftest.compare(tmp_path / "whole", tmp_path / "parts", noise=[tmp_path / "noise"])
    assert (found.verdict, found.skipped) == ("equal within rounding", {})
    assert {one.name for one in found.settings} == {"micro-batches of a step"}


def test_a_sketch_estimates_the_norm_of_a_difference_and_sums_over_pieces() -> None:
    signs, ratios = Signs(), []
    for seed in range(40):
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(48, 40, generator=generator)
        change = 1e-5 * torch.randn(48, 40, generator=generator)
        sketches = [whole(value, signs) for value in (x, x + change)]
        ratios.append(float((sketches[1] - sketches[0])[:BUCKETS].norm() / change.double().norm()))
        pieces = [x[:17], x[17:]]
        joined = sum(
            block(piece, (start, 0), x.shape, signs) for piece, start in zip(pieces, (0, 17), strict=True)
        )
        columns = block(x[:, :13], (0, 0), x.shape, signs) + block(x[:, 13:], (0, 13), x.shape, signs)
        for summed in (joined, columns):
            assert isinstance(summed, Tensor)
            torch.testing.assert_close(summed[:BUCKETS], sketches[0][:BUCKETS], rtol=1e-12, atol=1e-12)
    assert min(ratios) > 0.7
    assert max(ratios) < 1.4
    assert np.mean(ratios) == pytest.approx(1, abs=0.05)


def test_partial_sums_add_up_to_the_sum() -> None:
    signs = Signs()
    x, part = torch.randn(24, 32).double(), torch.randn(24, 32).double()
    joined = whole(part, signs) + whole(x - part, signs)
    torch.testing.assert_close(joined[:BUCKETS], whole(x, signs)[:BUCKETS], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("shape", [(1,), (7,), (500,), (3, 5), (1, 64), (2, 3, 4), (2, 9, 16, 5), (4, 1, 1)])
@pytest.mark.parametrize("batched", [True, False])
def test_tensors_of_any_shape_are_sketched_without_loss_of_a_single_element(
    shape: tuple[int, ...], batched: bool
) -> None:
    assert np.prod(sketching.buckets(shape, batched=batched)) <= BUCKETS
    signs, steps = Signs(), sketching.strides(shape)
    x = torch.zeros(shape)
    x.view(-1)[-1] = 3.0
    counts = sketching.buckets(shape, batched=batched)
    row = sketching.numbers(x, (0,) * len(shape), steps, counts, signs)
    assert row[:BUCKETS].abs().sum() == 3
    assert row[layout.SQUARES] == 9


def test_signs_and_sums_do_not_depend_on_how_much_is_computed_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = torch.randn(24, 32, 5).double()
    rows = []
    for most in (7, 64, 1 << 18):
        monkeypatch.setattr(sketching, "CHUNK", most)
        rows.append(whole(x, Signs()))
    for row in rows[:-1]:
        torch.testing.assert_close(row, rows[-1], rtol=1e-12, atol=1e-12)


class Operations(TorchDispatchMode):
    """Counts the operations that torch runs."""

    count = 0

    def __torch_dispatch__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401
        self.count += 1
        return function(*args, **(kwargs or {}))


def test_on_a_device_a_large_tensor_takes_few_operations() -> None:
    logits = torch.empty(8, 1024, 50257, dtype=torch.bfloat16, device="meta")
    with Operations() as operations:  # type: ignore[no-untyped-call]
        whole(logits, Signs())
    assert operations.count < 2000  # in a CPU's blocks 50 times as many


def test_signs_of_a_tensor_beyond_the_bound_leave_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sketching, "MOST_SIGN_BYTES", 100)
    signs, small, large = Signs(), torch.ones(9, 10), torch.ones(11, 10)

    def of(x: Tensor) -> Tensor:
        return signs.of(x.shape, (0, 0), sketching.strides(x.shape), x)

    first = of(small)
    assert of(large) is of(large)
    assert of(small) is first
    of(torch.ones(2, 10))
    assert of(small) is not first


def whole(x: Tensor, signs: Signs) -> Tensor:
    return block(x, (0,) * x.dim(), x.shape, signs)


def block(x: Tensor, start: tuple[int, ...], shape: torch.Size, signs: Signs) -> Tensor:
    counts = sketching.buckets(shape, batched=False)
    return sketching.numbers(x, start, sketching.strides(shape), counts, signs)


def test_nan_and_infinities_are_counted(tmp_path: Path) -> None:
    x = torch.ones(8, 16)
    x[0, 0], x[1, 1], x[2, 2] = float("nan"), float("inf"), float("-inf")
    row = whole(x, Signs())
    assert row[layout.NANS :].tolist() == [1, 2, 128]


def test_only_each_nth_step_and_only_chosen_modules_are_recorded(tmp_path: Path) -> None:
    assert equal(train(None, steps=5), train(tmp_path / "run", steps=5, every=2, modules="*.linear"))
    run = read(tmp_path / "run")
    assert run.steps == (0, 2, 4)
    assert owners(run.whole(2), layout.OUTPUT) == ["1.linear", "2.linear"]


def test_whole_tensors_of_chosen_modules_are_kept(tmp_path: Path) -> None:
    train(tmp_path / "run", whole=["1.linear"])
    with np.load(tmp_path / "run" / "rank-00000.step-00000001.npz") as arrays:
        given = {"argument:1.linear", "argument:1.linear:0"}
        parameters = {"parameter:1.linear:weight", "parameter:1.linear:bias"}
        assert {*arrays} == {"output:1.linear", "output gradient:1.linear"} | given | parameters
        assert arrays["output:1.linear"].shape == arrays["argument:1.linear:0"].shape == (8, 5, 16)
        form = json.loads(arrays["argument:1.linear"].tobytes())
        assert form == {"arguments": [{"tensor": 0}], "keywords": {}, "rows": [0]}


def test_evaluation_is_not_recorded(tmp_path: Path) -> None:
    net = model()
    with difftest.record(net, out=tmp_path / "run") as recorder:
        net.eval()
        with torch.no_grad():
            net(torch.zeros(8, 5, dtype=torch.int64))
        net.train()
        net(torch.ones(8, 5, dtype=torch.int64)).sum().backward()
        recorder.step()
    run = read(tmp_path / "run")
    assert run.ranks[0].steps[0].microbatches == 1
    assert owners(run.whole(0), layout.GRADIENT)


def test_a_perturbed_run_differs_in_the_last_bits(tmp_path: Path) -> None:
    train(tmp_path / "run")
    train(tmp_path / "noise", perturb=1)
    one, two = (read(tmp_path / name).whole(0) for name in ("run", "noise"))
    for key, whole_one in one.items():
        if key[0] in (layout.OUTPUT, layout.OUTPUT_GRADIENT, layout.GRADIENT):
            share = np.linalg.norm(whole_one.sketch - two[key].sketch) / whole_one.norm
            assert 2e-8 < share < 2e-5, key


def test_the_rounding_of_every_update_is_in_the_noise(tmp_path: Path) -> None:
    shared: dict[str, Any] = {"steps": 101, "every": 20}
    train(tmp_path / "single", **shared)
    train(tmp_path / "double", dtype=torch.float64, **shared)
    train(tmp_path / "noise", perturb=1, **shared)
    found = difftest.compare(tmp_path / "single", tmp_path / "double", noise=[tmp_path / "noise"])
    assert (found.verdict, found.steps) == ("equal within rounding", 6), found.first


def test_a_run_in_16_bits_agrees_with_another_split_without_measured_noise(tmp_path: Path) -> None:
    for name, parts in (("one", 1), ("four", 4)):
        train(tmp_path / name, parts=parts, steps=41, every=4, autocast=True)
    found = difftest.compare(tmp_path / "one", tmp_path / "four")
    assert (found.verdict, found.steps) == ("equal within rounding", 11), found.first
    assert found.notes == ("Rounding is that of bfloat16, the coarsest dtype of both runs.",)


@pytest.mark.parametrize(
    ("wrong", "says"), [({"every": 0}, "every is 0"), ({"perturb": -1}, "perturb is -1")]
)
def test_wrong_arguments_are_refused(tmp_path: Path, wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        difftest.record(model(), out=tmp_path / "run", **wrong)


class Flip:
    """Flips a bit of an element of a module's output in one of its calls."""

    def __init__(self, module: nn.Module, call: int, bit: int, element: int) -> None:
        self.calls, self.call, self.bit, self.element = 0, call, bit, element
        self.forward = module.forward
        module.forward = self

    def __call__(self, x: Tensor) -> Tensor:  # noqa: D102
        result: Tensor = self.forward(x)
        if self.calls == self.call:
            with torch.no_grad():
                flat = result.data.view(-1).view(torch.int32)  # shares no version counter
                flat[self.element % flat.numel()] ^= 1 << self.bit
        self.calls += 1
        return result


def checked(tmp_path: Path, call: int | None, bit: int = 20, element: int = 3) -> tuple[Any, list[Tensor]]:
    net = model()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    linear = net[1].get_submodule("linear")
    if call is not None:
        Flip(linear, call, bit, element)
    tokens = torch.randint(17, (8, 5), generator=torch.Generator().manual_seed(0))

    def step() -> None:
        functional.cross_entropy(net(tokens).flatten(0, 1), ((tokens + 1) % 17).flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()

    with difftest.record(net, optimizer, out=tmp_path / f"run{call}.{bit}") as recorder:
        places = recorder.check_step(step)
        recorder.step()
    return places, [parameter.detach().clone() for parameter in net.parameters()]


def test_a_repeatable_step_is_clean_and_the_training_goes_on_after_one_step(tmp_path: Path) -> None:
    places, parameters = checked(tmp_path, None)
    assert places == ()
    assert equal(parameters, train(None, steps=1))
    assert read(tmp_path / "runNone.20").steps == (0,)


@pytest.mark.parametrize(("call", "run"), [(0, "first"), (1, "second")])
def test_a_flipped_bit_names_tensor_rank_and_repetition(tmp_path: Path, call: int, run: str) -> None:
    places, parameters = checked(tmp_path, call)
    assert (places[0].kind, places[0].owner, places[0].ranks) == (layout.OUTPUT, "1.linear", (0,))
    assert f"the {run} of three runs" in places[0].share
    assert equal(parameters, train(None, steps=1))


@pytest.mark.parametrize("bit", [0, 5, 12, 22, 30])
def test_any_flipped_bit_is_noticed(tmp_path: Path, bit: int) -> None:
    places, _ = checked(tmp_path, 1, bit=bit, element=bit * 37)
    assert places[0].owner == "1.linear"
