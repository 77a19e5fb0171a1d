"""What of an environment is passed on, and what is not."""

from workers.isolate.environment_variables import without_secrets


def test_secrets_are_left_out_by_their_names() -> None:
    variables = {
        "PATH": "/bin",
        "HF_TOKEN": "a",
        "aws_secret_access_key": "b",
        "DB_PASSWORD": "c",
        "XLA_FLAGS": "",
        "RAY_AUTH_TOKEN": "d",
    }
    assert without_secrets(variables.items()) == {"PATH": "/bin", "XLA_FLAGS": ""}
