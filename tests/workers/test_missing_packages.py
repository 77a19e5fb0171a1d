"""Where an optional package is missing, what it would bring is unsupported; a broken installation is not."""

import pytest

from difftest.commands import doctor
from difftest.ground import installed
from difftest.jobs.installed import readiness
from workers import missing_packages
from workers.missing_packages import is_required, missing_package

ABSENT = "no_such_package"


def raised(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "package"),
    [
        (ModuleNotFoundError(f"No module named '{ABSENT}.x'", name=f"{ABSENT}.x"), ABSENT),
        (ImportError("Please install no-tabulate."), "no-tabulate"),
        (ImportError("Please install no_pwlf and numpy package."), "no_pwlf"),
        (ValueError("`visualize_sharding` requires `no_rich` to be installed."), "no_rich"),
        (RuntimeError("FXGraphDrawer requires the no_pydot package to be installed. Sorry"), "no_pydot"),
        (RuntimeError("The 'no_etcd' module is required but not installed."), "no_etcd"),
        (RuntimeError("Please install the `no_etils[epath]` package to specify a cache"), "no_etils"),
        (AssertionError("replay_record requires `pip install no_dill`"), "no_dill"),
        (raised(RuntimeError("compiled"), ImportError("pip install -U no_triton")), "no_triton"),
    ],
)
def test_a_package_that_a_message_misses_is_recognised(error: BaseException, package: str) -> None:
    assert missing_package(error) == package


@pytest.mark.parametrize(
    "error",
    [
        ModuleNotFoundError("No module named 'numpy.nothing'", name="numpy.nothing"),
        ImportError("cannot import name 'x' from 'numpy'", name="numpy"),
        RuntimeError("out of range; pip install numpy may help"),
        RuntimeError("please install a newer driver"),
        RuntimeError("the kernel is missing; please install it."),
        RuntimeError("Expected all tensors to be on the same device"),
    ],
)
def test_other_errors_stay_what_they_are(error: BaseException) -> None:
    assert missing_package(error) == ""


@pytest.mark.parametrize(("module", "package"), [(f"{ABSENT}.interop", ABSENT), ("json.decoder", "")])
def test_an_import_that_was_caught_is_made_again_to_name_the_package(
    module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "Jax is required for this feature"
    assert words in missing_packages.SWALLOWED
    monkeypatch.setitem(missing_packages.SWALLOWED, words, ("json", module))
    assert missing_package(AssertionError(words)) == package


def test_what_difftest_torch_and_the_backend_require_is_no_optional_package() -> None:
    for package in ("numpy", "msgspec", "torch", "sympy" if installed.version("torch") else "torch"):
        assert is_required(package, ())
    assert is_required("torch_xla", ("torch_xla.core", "torch"))
    assert not is_required("torch_xla", ())
    assert not is_required("flax", ("torch_xla",))


@pytest.mark.parametrize(
    ("package", "command"),
    [
        ("flax", "pip install -e '.[torchax]'"),
        ("torch-xla", "pip install -e '.[xla]'"),
        ("ray", "pip install -e '.[cluster]'"),
        ("tabulate", "pip install tabulate"),
        ("pytest", "pip install pytest"),
    ],
)
def test_the_extra_that_brings_a_package_is_named(package: str, command: str) -> None:
    assert installed.how_to_install(package) == command


def test_doctor_says_what_each_optional_package_brings() -> None:
    optional = {name for name, how in doctor.PACKAGES.items() if how}
    assert optional == {*readiness.BRINGS, *readiness.SIDE, "ray", "torch"}
    for name in readiness.BRINGS:
        assert not is_required(name, ("torch_xla",))
