"""The environment variables that are recorded, and those that are left out."""

from workers.isolate.environment_variables import without_secrets


def test_variables_with_the_names_of_secrets_are_left_out() -> None:
    variables = {
        "PATH": "/bin",
        "HF_TOKEN": "a",
        "aws_secret_access_key": "b",
        "DB_PASSWORD": "c",
        "XLA_FLAGS": "",
        "RAY_AUTH_TOKEN": "d",
    }
    assert without_secrets(variables.items()) == {"PATH": "/bin", "XLA_FLAGS": ""}
