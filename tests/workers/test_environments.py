"""Which backend runs where: read from a file, or derived from what the nodes have."""

from pathlib import Path

import pytest

from difftest.ground.errors import UsageError
from workers.cluster import environments
from workers.cluster.environments import PLAIN, VARIABLE, Environment

DEPLOYED = Path(__file__).parents[2] / ".github" / "deploy" / "environments.toml"
TWO = """
[[environment]]
backends = "xla_*"
python = "/opt/xla/bin/python"
resources = { TPU = 4, CPU = 0.5 }
labels = { "ray.io/market-type" = "spot" }
workers = 1

[[environment]]
backends = "torch_ddp"
resources = { GPU = 2 }
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "environments.toml"
    file.write_text(text)
    return file


def test_a_backend_has_the_environment_of_the_first_matching_pattern(tmp_path: Path) -> None:
    read = environments.read(written(tmp_path, TWO))
    assert environments.of("xla_spmd", read).python == "/opt/xla/bin/python"
    assert environments.of("torch_ddp", read).resources == {"GPU": 2}
    assert environments.of("torch_fsdp", read) is PLAIN
    assert environments.of("oracle", read) is PLAIN


@pytest.fixture
def nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in environments.CHOOSING:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("nothing_chosen")
def test_an_environment_gives_the_options_of_ray_s_workers(tmp_path: Path) -> None:
    xla, ddp = environments.read(written(tmp_path, TWO))
    assert xla.options() == {
        "num_cpus": 0.5,
        "num_gpus": 0,
        "resources": {"TPU": 4},
        "label_selector": {"ray.io/market-type": "spot"},
        "runtime_env": {"py_executable": "/opt/xla/bin/python"},
    }
    assert ddp.options() == {"num_cpus": 0, "num_gpus": 2, "resources": {}, "label_selector": None}
    assert PLAIN.plain
    assert not ddp.plain


@pytest.mark.usefixtures("nothing_chosen")
def test_ray_gets_the_user_s_choice_of_devices_or_no_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert environments.runtime() == {}
    monkeypatch.setenv("PJRT_DEVICE", "")
    monkeypatch.setenv("DIFFTEST_SHARE_GPUS", "1")
    assert environments.runtime() == {"runtime_env": {"env_vars": {"DIFFTEST_SHARE_GPUS": "1"}}}
    assert PLAIN.options()["runtime_env"] == {"env_vars": {"DIFFTEST_SHARE_GPUS": "1"}}
    monkeypatch.setenv("PJRT_DEVICE", "CUDA")
    runtime = Environment(python="/opt/xla/bin/python").options()["runtime_env"]
    assert runtime == {
        "py_executable": "/opt/xla/bin/python",
        "env_vars": {"PJRT_DEVICE": "CUDA", "DIFFTEST_SHARE_GPUS": "1"},
    }


VERSIONS = """
[[environment]]
backends = "*"
workers = 1

[[environment]]
backends = "xla_*@2.8"
python = "/opt/old/bin/python"
"""


def test_a_backend_named_with_an_environment_runs_in_that_one_only(tmp_path: Path) -> None:
    read = environments.read(written(tmp_path, VERSIONS))
    assert environments.of("xla_spmd@2.8", read).python == "/opt/old/bin/python"
    assert environments.of("xla_spmd", read).python is None
    with pytest.raises(UsageError, match=r"backend 'xla_spmd@2\.7' names an environment"):
        environments.of("xla_spmd@2.7", read)


def test_the_variable_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert environments.configured() is None
    monkeypatch.setenv(VARIABLE, str(written(tmp_path, TWO)))
    assert len(environments.configured() or ()) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[environment]", "Expected ']]'"),
        ("[[environment]]\npyton = 'x'", "unknown field `pyton`"),
        ("[[environment]]\nresources = { GPU = 0 }", "GPU is 0.0; it must be more than 0"),
        ("[[environment]]\nworkers = -1", "workers is -1; it must be more than 0"),
        ("[[environment]]\nresources = { GPU = 'two' }", "Expected `float`, got `str`"),
        ("", "missing required field `environment`"),
        pytest.param("a = " + "[" * 20_000, "maximum recursion depth exceeded", id="nested"),
    ],
)
def test_the_error_for_an_unusable_file_gives_the_reason(tmp_path: Path, text: str, message: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(UsageError) as error:
        environments.read(file)
    assert str(file) in str(error.value)
    assert message in str(error.value)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.toml cannot be used"):
        environments.read(tmp_path / "nowhere.toml")


@pytest.mark.usefixtures("nothing_chosen")
def test_the_name_of_a_campaign_depends_on_the_chosen_devices_and_pythons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert environments.chosen(("torch_ddp",)) == {}
    monkeypatch.setenv(
        VARIABLE,
        str(written(tmp_path, '[[environment]]\nbackends = "*@2.8"\npython = "/opt/older/bin/python"')),
    )
    monkeypatch.setenv("PJRT_DEVICE", "CUDA")
    assert environments.chosen(("torch_ddp", "xla_ddp@2.8")) == {
        "PJRT_DEVICE": "CUDA",
        "xla_ddp@2.8": "/opt/older/bin/python",
    }
    with pytest.raises(UsageError, match=r"xla_ddp@2\.9"):
        environments.chosen(("xla_ddp@2.9",))


def test_where_nodes_differ_each_side_runs_on_its_accelerators() -> None:
    cpu, gpu, gpus, tpu = (
        {"CPU": 8.0},
        {"CPU": 4.0, "GPU": 2.0},
        {"CPU": 4.0, "GPU": 8.0},
        {"CPU": 4.0, "TPU": 4.0},
    )
    assert environments.by_accelerators([cpu, cpu]) == ()
    assert environments.by_accelerators([gpu, gpu]) == (), "where all have them there is nothing to choose"
    assert environments.by_accelerators([cpu, gpu, gpus, tpu]) == (
        Environment(backends="torch*", resources={"GPU": 2.0}),
        Environment(backends="xla_*", resources={"TPU": 4.0}, workers=1),
    )


def test_the_chips_of_a_node_belong_to_one_worker_even_on_the_only_node() -> None:
    host = {"CPU": 112.0, "TPU": 8.0}
    assert environments.by_accelerators([host]) == (
        Environment(backends="xla_*", resources={"TPU": 8.0}, workers=1),
    )
    assert environments.by_accelerators([host, host]) == (
        Environment(backends="xla_*", resources={"TPU": 8.0}, workers=2),
    )


def test_negative_amounts_of_resources_are_refused() -> None:
    with pytest.raises(ValueError, match=r"GPU is -1; it must be more than 0"):
        Environment(resources={"GPU": -1})


@pytest.mark.long
def test_the_sample_cluster_is_valid_and_has_the_resources_of_its_environments() -> None:
    yaml = pytest.importorskip("yaml", reason="needs ray: pip install 'difftest[cluster]'")
    util = pytest.importorskip(
        "ray.autoscaler._private.util", reason="needs ray: pip install 'difftest[cluster]'"
    )
    config = yaml.safe_load(DEPLOYED.with_name("cluster.yaml").read_text())
    util.validate_config(util.prepare_config(config))
    assert config["file_mounts"]["/home/ubuntu/.ray/auth_token"] == "~/.ray/auth_token"  # noqa: S105
    assert any("RAY_AUTH_MODE=token" in command for command in config["initialization_commands"])
    kinds = config["available_node_types"].values()
    for environment in environments.read(DEPLOYED):
        able = [
            kind
            for kind in kinds
            if all(kind["resources"].get(name, 0) >= amount for name, amount in environment.resources.items())
        ]
        assert any(environment.labels.items() <= kind.get("labels", {}).items() for kind in able), environment
    assert environments.of("oracle", environments.read(DEPLOYED)).plain
