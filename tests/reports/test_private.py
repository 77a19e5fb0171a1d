"""A draft must not contain private folders, or the names of the user and the machine."""

import getpass
import socket
import tempfile
from pathlib import Path

import pytest

from reports.draft import private

FOLDERS = (
    (
        'File "/home/me/.venv/lib/python3.11/site-packages/torch_xla/torch_xla.py", line 9',
        'File "torch_xla/torch_xla.py", line 9',
    ),
    ('File "/Users/A B/venv/lib/python3.11/site-packages/torch/x.py"', 'File "torch/x.py"'),
    (
        'File "/tmp/ray/session_1/_ray_pkg_2/workers/training/train.py", line 1',
        'File "workers/training/train.py", line 1',
    ),
    ('File "/home/me/difftest/workers/xla/devices.py"', 'File "workers/xla/devices.py"'),
    (
        "g++ -I/home/me/env/lib/python3.11/site-packages/torch/include -I/home/me/include",
        "g++ -Itorch/include -I~/include",
    ),
    ("file:///tmp/difftest-abc/rendezvous, /var/tmp/me/x", "file:///tmp/.../rendezvous, /tmp/.../x"),
    ("see /home/me and /root/.cache, '/Users/me/x'", "see ~ and ~/.cache, '~/x'"),
)
PUBLIC = (
    "root mean square 0.25 of the other side",
    "/usr/lib/python3.11/threading.py:5",
    "torch/nn/modules/module.py:__getattr__",
    "external/xla/xla/service/spmd/spmd_partitioner_util.h:127] Check failed: a/b",
    "model/tmp/x and ~/tmp/x and https://openxla.org/shardy",
)


@pytest.mark.parametrize(("text", "left"), FOLDERS)
def test_private_folders_are_removed_or_replaced(text: str, left: str) -> None:
    assert private.shared(text) == private.places(text) == left


@pytest.mark.parametrize("text", PUBLIC)
def test_public_text_is_unchanged(text: str) -> None:
    assert private.shared(text) == text


def test_the_home_checkout_and_temporary_folders_are_replaced_wherever_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(private, "ROOT", Path("/data/me/checkout"))
    monkeypatch.setattr(Path, "home", lambda: Path("/data/me"))
    monkeypatch.setattr(tempfile, "gettempdir", lambda: "/scratch")
    text = "/data/me/checkout/runs/first, /data/me/checkout: /data/me/.cache /scratch/job/x /data/meadow"
    assert private.places(text) == "runs/first, .: ~/.cache /tmp/.../x /data/meadow"


def test_user_and_machine_are_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "test")
    monkeypatch.setattr(socket, "gethostname", lambda: "athena.example.org")
    address = "connect to athena:29500 and [athena.example.org]; test@athena, /scratch/test/x"
    assert (
        private.shared(f"{address}; the test fails, athenaeum")
        == "connect to host:29500 and [host]; user@host, /scratch/user/x; the test fails, athenaeum"
    )


def test_a_user_without_a_name_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError

    monkeypatch.setattr(getpass, "getuser", nameless)
    monkeypatch.setattr(socket, "gethostname", lambda: "localhost")
    assert private.shared("a/b: user@localhost") == "a/b: user@localhost"


def test_passwords_in_urls_are_replaced() -> None:
    text = "proxy http://user:password@proxy:3128, redis://:pass@host/0 and https://token@github.com/a"
    left = "proxy http://...@proxy:3128, redis://...@host/0 and https://...@github.com/a"
    assert private.shared(text) == left
