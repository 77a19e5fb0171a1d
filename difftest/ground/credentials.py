"""What marks a text as a secret: names of environment variables, and URLs with a password.

The variables that processes inherit and the texts of drafts go by the same patterns.
"""

import re

SECRET_NAME = re.compile(
    r"TOKEN|KEY|SECRET|PASSW|PASSPHRASE|CREDENTIAL|DATABASE_UR[IL]|(?:^|_)(?:PAT|DSN)(?:_|$)|_(?:PASS|PWD)$",
    re.IGNORECASE,
)
"""A name that says that its variable is secret. PWD alone is the shell's folder."""

URL_PASSWORD = re.compile(
    r"(?:(?<=://)[^\s/?#@:\"']*:[^\s/?#\"']*|(?<=http://)[^\s/?#@:\"']+|(?<=https://)[^\s/?#@:\"']+)(?=@)",
    re.IGNORECASE,
)
"""The user and password before the @ of a URL's host; over HTTP also a token that stands there alone."""


def is_secret(name: str, value: str) -> bool:
    """Whether the name of a variable says that it is secret, or its value is a URL with a password."""
    return bool(SECRET_NAME.search(name) or URL_PASSWORD.search(value))


def without_url_passwords(text: str) -> str:
    """`text` with `...` in place of the users and passwords of URLs."""
    return URL_PASSWORD.sub("...", text)
