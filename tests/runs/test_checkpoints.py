"""`difftest checkpoints`: files of every format and sharding, names, noise; and no code of a pickle runs."""

import json
import os
import pickle
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import command
from recorded_scripts import in_ranks
from torch import Tensor, distributed, nn
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, StateDictType, fully_shard

from difftest.runs.checkpoints import compare_checkpoints
from workers.checkpoints import read

pytestmark = pytest.mark.slow

State = dict[str, Tensor]


def state(seed: int = 0) -> State:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Linear(7, 3))
    return {name: value.clone() for name, value in model.state_dict().items()}


def trained() -> dict[str, Any]:
    """A training's checkpoint after a step of AdamW."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Linear(7, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model(torch.randn(4, 5)).square().sum().backward()
    optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}


def saved(file: Path, value: object) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    torch.save(value, file)
    return file


def safetensors(folder: Path, files: Mapping[str, State]) -> Path:
    """A folder as Hugging Face writes it, with an index."""
    from safetensors.torch import save_file  # noqa: PLC0415  the other tests need no safetensors

    folder.mkdir()
    for name, tensors in files.items():
        save_file(tensors, folder / name)
    index = {"metadata": {}, "weight_map": {key: name for name, each in files.items() for key in each}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def halves(tensors: State) -> dict[str, State]:
    names = [*tensors]
    return {
        "model-00001-of-00002.safetensors": {name: tensors[name] for name in names[:4]},
        "model-00002-of-00002.safetensors": {name: tensors[name] for name in names[4:]},
    }


def test_what_is_bit_equal_ends_in_status_0(tmp_path: Path) -> None:
    one, two = saved(tmp_path / "a.pt", state()), saved(tmp_path / "b.pt", state())
    done = command("checkpoints", one, two)
    assert (done.status, "bit-equal in all 9 tensors" in done.output) == (0, True)


def test_the_wrong_tensor_is_named_with_its_farthest_element(tmp_path: Path) -> None:
    wrong = state()
    wrong["2.weight"][1, 3] += 0.5
    one, two = saved(tmp_path / "a.pt", state()), saved(tmp_path / "b.pt", wrong)
    done = command("checkpoints", one, two)
    assert done.status == 1
    assert "1 of 9 tensors differ" in done.output
    assert "2.weight: 1 / 21 elements (4.8%) differ; greatest 0.5 at (1, 3)" in done.output
    given = json.loads(command("checkpoints", one, two, "--json").output)
    assert (given["status"], given["wrong"][0]["name"], given["wrong"][0]["at"]) == (1, "2.weight", [1, 3])


def test_rounding_of_the_coarser_dtype_is_no_difference(tmp_path: Path) -> None:
    half = {name: one.bfloat16() if one.is_floating_point() else one for name, one in state().items()}
    done = command("checkpoints", saved(tmp_path / "a.pt", state()), saved(tmp_path / "b.pt", half))
    assert done.status == 0
    assert "dtype of 8 tensors" in done.output
    assert "only a bound" in done.output


def test_measured_noise_decides(tmp_path: Path) -> None:
    def moved(size: float, seed: int) -> State:
        torch.manual_seed(seed)
        base = state()
        torch.manual_seed(seed)
        return {
            name: one * (1 + size * torch.randn_like(one)) if one.is_floating_point() else one
            for name, one in base.items()
        }

    paths = [
        saved(tmp_path / f"{name}.pt", value)
        for name, value in (
            ("a", state()),
            ("near", moved(3e-3, 1)),
            ("noise", moved(1e-3, 2)),
            ("far", moved(5e-2, 3)),
        )
    ]
    one, near, noise, far = paths
    assert command("checkpoints", one, near).status == 1
    done = command("checkpoints", one, near, "--noise", noise)
    assert (done.status, "The noise was measured" in done.output) == (0, True)
    assert command("checkpoints", one, far, "--noise", noise).status == 1
    assert command("checkpoints", one, near, "--noise", near).status == 2


def test_missing_names_and_other_shapes_are_reported(tmp_path: Path) -> None:
    other = state()
    del other["1.bias"]
    other["2.bias"] = torch.zeros(4)
    done = command("checkpoints", saved(tmp_path / "a.pt", state()), saved(tmp_path / "b.pt", other))
    assert done.status == 1
    assert f"only in {tmp_path / 'a.pt'}: 1.bias" in done.output
    assert "2.bias: shape (3,) in" in done.output


def test_names_are_found_in_what_wraps_the_model(tmp_path: Path) -> None:
    bare = saved(tmp_path / "bare.pt", trained()["model"])
    ddp = {f"module._orig_mod.{name}": one for name, one in trained()["model"].items()}
    for wrapped in (trained(), {"state_dict": ddp, "epoch": 1}):
        found = compare_checkpoints(read(bare), read(saved(tmp_path / "wrapped.pt", wrapped)))
        assert (found.verdict, found.compared, found.same) == ("equal within rounding", 9, 9)
    assert compare_checkpoints(read(saved(tmp_path / "t.pt", trained())), read(bare)).beside == (18, 0)
    lightning = saved(tmp_path / "l.pt", {"state_dict": ddp})
    assert compare_checkpoints(read(tmp_path / "t.pt"), read(lightning)).same == 9


def test_states_of_an_optimizer_are_those_of_its_parameters(tmp_path: Path) -> None:
    one = trained()
    names = [name for name in one["model"] if "running" not in name and "num" not in name]
    state = {names[number]: value for number, value in one["optimizer"]["state"].items()}
    named = {"model": one["model"], "optim": {"state": state}}
    found = compare_checkpoints(read(saved(tmp_path / "a.pt", one)), read(saved(tmp_path / "b.pt", named)))
    assert (found.verdict, found.compared, found.same) == ("equal within rounding", 27, 27)
    state["2.bias"]["exp_avg"] = state["2.bias"]["exp_avg"] * 2
    found = compare_checkpoints(
        read(saved(tmp_path / "a.pt", trained())), read(saved(tmp_path / "c.pt", named))
    )
    assert [off.name for off in found.wrong] == ["optimizer.state.5.exp_avg"]


def test_states_of_several_optimizers_are_all_compared(tmp_path: Path) -> None:
    optimizer = trained()["optimizer"]
    both = {"model": state(), "optimizers": [optimizer, optimizer]}
    one, two = saved(tmp_path / "a.pt", both), saved(tmp_path / "b.pt", both)
    assert compare_checkpoints(read(one), read(two)).compared == 9 + 2 * 18


def test_a_map_names_what_is_called_otherwise(tmp_path: Path) -> None:
    renamed = {name.replace("0.", "encoder.").replace("2.", "head."): one for name, one in state().items()}
    one, two = saved(tmp_path / "a.pt", state()), saved(tmp_path / "b.pt", renamed)
    assert command("checkpoints", one, two).status == 1
    assert command("checkpoints", one, two, "--name", "0=encoder", "--name", "2=head").status == 0
    assert "'9', which is in no tensor's name" in command("checkpoints", one, two, "--name", "9=x").output


def test_what_shares_no_name_cannot_be_compared(tmp_path: Path) -> None:
    one, two = saved(tmp_path / "a.pt", {"x": torch.ones(2)}), saved(tmp_path / "b.pt", {"y": torch.ones(2)})
    assert command("checkpoints", one, two).status == 3


def test_a_tied_weight_that_one_checkpoint_leaves_out_is_not_missing(tmp_path: Path) -> None:
    weight = torch.randn(5, 4)
    both = {"embed.weight": weight, "head.weight": weight, "norm.weight": torch.ones(4)}
    less = {name: one for name, one in both.items() if name != "head.weight"}
    found = compare_checkpoints(read(saved(tmp_path / "a.pt", both)), read(saved(tmp_path / "b.pt", less)))
    assert found.verdict == "equal within rounding"
    assert "as tied weights do" in found.notes[0]


def test_whole_numbers_are_compared_exactly_and_nan_with_nan(tmp_path: Path) -> None:
    one = {"steps": torch.tensor(1_000_000), "x": torch.tensor([1.0, float("nan")])}
    assert command("checkpoints", saved(tmp_path / "a.pt", one), saved(tmp_path / "b.pt", one)).status == 0
    for other in (one | {"steps": torch.tensor(1_000_001)}, one | {"x": torch.tensor([1.0, 2.0])}):
        assert command("checkpoints", tmp_path / "a.pt", saved(tmp_path / "c.pt", other)).status == 1


def test_safetensors_with_an_index_are_read_whole(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    one = safetensors(tmp_path / "hf", halves(state()))
    two = saved(tmp_path / "b.pt", {"model": state()})
    for path in (one, one / "model.safetensors.index.json"):
        found = compare_checkpoints(read(path), read(two))
        assert (found.verdict, found.same) == ("equal within rounding", 9)
    assert command("checkpoints", one / "model-00001-of-00002.safetensors", two).status == 1


def test_an_index_that_leads_out_of_its_folder_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    folder = safetensors(tmp_path / "hf", halves(state()))
    index = {"weight_map": {"x": "../secret.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "which is no file beside it" in command("checkpoints", folder, folder).output


def sharded(folder: Path) -> None:
    """What FSDP2 and FSDP1 save on two ranks: distributed checkpoints, and a file of each rank."""
    rank = distributed.get_rank()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Linear(7, 3))
    torch.save(model.state_dict(), folder / f"whole{rank}.pt")
    old = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Linear(7, 3))
    old.load_state_dict(model.state_dict())
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    states = get_state_dict(model, optimizer)
    save({"model": states[0], "step": 3}, checkpoint_id=folder / "dcp")
    for name in ("ranks", "fsdp1"):
        (folder / name).mkdir(exist_ok=True)
    torch.save(model.state_dict(), folder / "ranks" / f"model_world_size_2_rank_{rank}.pt")
    flat = FullyShardedDataParallel(old, device_id=torch.device("cpu"))
    with FullyShardedDataParallel.state_dict_type(flat, StateDictType.SHARDED_STATE_DICT):
        torch.save(flat.state_dict(), folder / "fsdp1" / f"rank{rank}.pt")
        save({"model": flat.state_dict()}, checkpoint_id=folder / "dcp1")


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    in_ranks(2, sharded, folder)
    return folder


@pytest.mark.parametrize("which", ["dcp", "ranks", "fsdp1", "dcp1"])
def test_shards_of_every_kind_are_put_together(shards: Path, which: str) -> None:
    found = compare_checkpoints(read(shards / "whole0.pt"), read(shards / which))
    assert (found.verdict, found.compared, found.same) == ("equal within rounding", 9, 9), found


def test_the_shards_of_one_rank_are_not_enough(shards: Path, tmp_path: Path) -> None:
    file = tmp_path / "rank_0.pt"
    file.write_bytes((shards / "ranks" / "model_world_size_2_rank_0.pt").read_bytes())
    assert "the files of all ranks are needed" in command("checkpoints", shards / "whole0.pt", file).output


def test_copies_that_differ_between_ranks_are_named(tmp_path: Path) -> None:
    wrong = state()
    wrong["0.bias"] += 1
    for rank, one in enumerate((state(), wrong)):
        saved(tmp_path / "ranks" / f"rank_{rank}.pt", one)
    done = command("checkpoints", tmp_path / "ranks", saved(tmp_path / "a.pt", state()))
    assert done.status == 1
    assert f"copies differ in {tmp_path / 'ranks'}: 0.bias" in done.output


class Evil:
    """A pickle that runs code."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return os.mkdir, (str(self.mark),)


def test_no_code_of_a_checkpoint_runs(tmp_path: Path, shards: Path) -> None:
    whole, mark = shards / "whole0.pt", tmp_path / "mark"
    evil = saved(tmp_path / "evil.pt", {"x": torch.ones(2), "hook": Evil(mark)})
    plain = tmp_path / "plain.pkl"
    plain.write_bytes(pickle.dumps({"hook": Evil(mark)}))
    dcp = tmp_path / "dcp"
    dcp.mkdir()
    (dcp / ".metadata").write_bytes(pickle.dumps(Evil(mark)))
    for path, says in ((evil, "object of posix.mkdir"), (plain, "alone"), (dcp, "names posix.mkdir")):
        done = command("checkpoints", path, whole)
        assert (done.status, "cannot read" in done.output, says in done.output) == (2, True, True), (
            done.output
        )
    assert not mark.exists()


def test_metadata_that_leads_out_of_its_folder_is_refused(shards: Path, tmp_path: Path) -> None:
    folder = tmp_path / "dcp"
    folder.mkdir()
    metadata = pickle.loads((shards / "dcp" / ".metadata").read_bytes())  # noqa: S301  the test's own
    for place in metadata.storage_data.values():
        place.relative_path = "../other/__0_0.distcp"
    (folder / ".metadata").write_bytes(pickle.dumps(metadata))
    assert "outside of it" in command("checkpoints", folder, shards / "whole0.pt").output


def test_what_is_no_checkpoint_is_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "step-3").mkdir()
    saved(tmp_path / "step-3" / "model.pt", state())
    (tmp_path / "notes.txt").write_text("x")
    for path, says in (
        (tmp_path / "none", "there is no checkpoint"),
        (tmp_path, "did you mean"),
        (tmp_path / "notes.txt", "holds no checkpoint"),
    ):
        done = command("checkpoints", path, path)
        assert (done.status, says in done.output) == (2, True), done.output


class _AsEarlyPython(pickle.Pickler):
    """Writes an enumeration's member as Python 3.11.0 to 3.11.3 does."""

    def reducer_override(self, value: Any) -> Any:  # noqa: ANN401  any object
        """As an attribute of its class."""
        return (getattr, (type(value), value.name)) if isinstance(value, Enum) else NotImplemented


def test_metadata_that_an_early_python_wrote_is_read_and_no_other_attribute(tmp_path: Path) -> None:
    written = tmp_path / "dcp"
    save({"model": {"weight": torch.ones(2, 3)}}, checkpoint_id=written, no_dist=True)
    file = written / ".metadata"
    metadata = pickle.loads(file.read_bytes())  # noqa: S301  written above
    with file.open("wb") as stream:
        _AsEarlyPython(stream).dump(metadata)
    assert b"getattr" in file.read_bytes()
    assert [*read(written).tensors] == ["model.weight"]
    with file.open("wb") as stream:
        pickle.dump(_Reach(), stream)
    reached = command("checkpoints", written, written)
    assert reached.status == 2
    assert "names the attribute '__subclasses__'" in reached.output


class _Reach:
    """What reaches further than an enumeration's members."""

    def __reduce__(self) -> Any:  # noqa: ANN401  as pickle asks
        return getattr, (torch.Size, "__subclasses__")
