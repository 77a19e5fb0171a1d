"""The environment variables that are recorded, and those that are left out."""

import pytest

from workers.isolate.environment_variables import without_secrets


def test_variables_with_the_names_of_secrets_are_left_out() -> None:
    variables = {
        "PATH": "/bin",
        "HF_TOKEN": "a",
        "aws_secret_access_key": "b",
        "DB_PASSWORD": "c",
        "XLA_FLAGS": "",
        "RAY_AUTH_TOKEN": "d",
        "GITHUB_PAT": "e",
        "PAT": "f",
        "SENTRY_DSN": "g",
        "DATABASE_URL": "sqlite:///h",
        "MYSQL_PWD": "i",
        "PWD": "/work",
        "SPATIAL": "1",
    }
    plain = {"PATH": "/bin", "XLA_FLAGS": "", "PWD": "/work", "SPATIAL": "1"}
    assert without_secrets(variables.items()) == plain


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
    assert without_secrets({"http_proxy": value}.items()) == ({} if secret else {"http_proxy": value})
