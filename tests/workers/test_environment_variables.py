"""The environment variables that runs inherit: those on a list, and no secret."""

import json
import os
import subprocess
import sys

import pytest

from difftest.ground.inherited import by_scripts, inherited
from workers.isolate import zygotes

SECRETS = (
    *("CI_JOB_JWT", "CI_JOB_JWT_V2", "BASIC_AUTH", "SLACK_WEBHOOK", "NETRC", "VAULT_ADDR", "VAULT_ROLE_ID"),
    *("HF_TOKEN", "GITHUB_TOKEN", "RAY_AUTH_TOKEN", "AWS_SESSION_TOKEN", "aws_secret_access_key", "GH_PAT"),
    *("OPENAI_API_KEY", "NVIDIA_API_KEY", "WANDB_API_KEY", "TF_VAR_db", "DOCKER_AUTH_CONFIG", "SENTRY_DSN"),
    *(
        "MYSQL_PWD",
        "PGPASSFILE",
        "DATABASE_URL",
        "KUBECONFIG",
        "SSH_AUTH_SOCK",
        "GOOGLE_APPLICATION_CREDENTIALS",
    ),
    *("AZURE_CONNECTION_STRING", "COOKIE", "SIGNING_CERT", "LDAP_BIND", "NPM_CONFIG_AUTH", "http_proxy"),
    *("STRIPE_SK", "TWINE_USERNAME", "XLA_SECRET", "PYTHON_KEYRING_BACKEND", "SESSION", "TEAMS_HOOK"),
)
NEEDED = (
    *("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "PYTHONPATH"),
    *("PYTHONHASHSEED", "XLA_FLAGS", "XLA_USE_SPMD", "PJRT_DEVICE", "PT_XLA_DEBUG", "JAX_PLATFORMS"),
    *(
        "TPU_VISIBLE_CHIPS",
        "LIBTPU_INIT_ARGS",
        "TORCH_LOGS",
        "TORCHINDUCTOR_CACHE_DIR",
        "PYTORCH_CUDA_ALLOC_CONF",
    ),
    *(
        "CUDA_VISIBLE_DEVICES",
        "CUBLAS_WORKSPACE_CONFIG",
        "NCCL_DEBUG",
        "NCCL_SOCKET_IFNAME",
        "GLOO_SOCKET_IFNAME",
    ),
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TRITON_CACHE_DIR", "RAY_ADDRESS", "DIFFTEST_MEMORY"),
    *("TF_CPP_MIN_LOG_LEVEL", "XDG_STATE_HOME", "MASTER_ADDR", "LOCAL_RANK", "COVERAGE_PROCESS_START"),
)


def test_what_may_be_secret_is_not_inherited() -> None:
    assert [name for name in SECRETS if name in inherited({name: "value", "PATH": "/bin"})] == []
    assert inherited(dict.fromkeys((*SECRETS, "PATH"), "value")) == {"PATH": "value"}


def test_what_the_frameworks_read_is_inherited() -> None:
    assert [name for name in NEEDED if inherited({name: "value"}) != {name: "value"}] == []


def test_the_user_can_name_further_variables() -> None:
    variables = {
        "HF_HOME": "/models",
        "HF_TOKEN": "secret",
        "OTHER": "1",
        "DIFFTEST_INHERIT": "HF_HOME, HF_TOKEN",
    }
    assert inherited(variables) == {
        name: variables[name] for name in ("HF_HOME", "HF_TOKEN", "DIFFTEST_INHERIT")
    }


@pytest.mark.parametrize(
    ("value", "secret"),
    [
        ("http://user:password@proxy:3128", True),
        ("HTTPS://user:p%40ss@proxy", True),
        ("redis://:password@host/0", True),
        ("first=a,second=socks5://user:password@host:1080/x", True),
        ("https://ghp_0123@github.com/a/b", True),
        ("http://proxy:3128", False),
        ("http://proxy:3128/a@b", False),
        ("ssh://git@host/a", False),
        ("/bin:/usr/bin", False),
    ],
)
def test_urls_with_passwords_are_secret_whatever_the_variable(value: str, secret: bool) -> None:
    assert inherited({"RAY_ADDRESS": value}) == ({} if secret else {"RAY_ADDRESS": value})


def test_what_starts_runs_and_scripts_has_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, "value")
    prints = [sys.executable, "-c", "import json, os; print(json.dumps(sorted(os.environ)))"]
    for variables in (zygotes.environment(), by_scripts()):
        done = subprocess.run(prints, env=variables, capture_output=True, text=True, check=True)
        assert not {*json.loads(done.stdout)} & {*SECRETS}
        assert variables["PATH"] == os.environ["PATH"]
