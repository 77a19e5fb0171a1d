"""What a user's model imports at its top, which a zygote imports once instead of every rank.

`import transformers` takes more processor time than torch's import. Only installed packages count, and only
where the files are those of the case: the user's own files are imported in the ranks alone.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from difftest.campaign.campaign import ORACLE
from difftest.cases.case import Case
from difftest.ground import sources
from difftest.ground.errors import UsageError

AS_WRITTEN = ":"
"""Between a module and what is imported from it: `transformers:BertModel`, or `timm:` for itself alone."""

BEFORE = "workers.own.before_imports"
BEFORE_ORACLE = "workers.own.before_imports_of_oracle"
"""What a rank replaces before it imports the user's source, and what the oracle's rank replaces too."""


def preload(case: Case, backend: str) -> tuple[str, ...]:
    """What a zygote imports for the ranks of a case beside its backend's `PRELOAD`; nothing for most cases.

    Also nothing where the files are not those of the case: the ranks then say so.
    """
    if not (own := case.model.own):
        return ()
    try:
        names = own.recipe.imports if own.recipe else tuple(dict.fromkeys(_names(sources.texts(own.files))))
    except (UsageError, OSError, UnicodeError):
        return ()
    return (BEFORE_ORACLE if backend == ORACLE else BEFORE, *names) if names else ()


def _names(texts: Mapping[str, str]) -> Iterator[str]:
    for file, text in texts.items():
        try:
            body = ast.parse(text).body if file.endswith(".py") else []
        except (SyntaxError, ValueError):
            continue
        for node in body:
            if isinstance(node, ast.Import):
                pairs = [(alias.name, "") for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                pairs = [(node.module, alias.name) for alias in node.names if alias.name != "*"]
            else:
                continue
            for module, name in pairs:
                if not _is_of_the_user(module.partition(".")[0], file):
                    yield f"{module}{AS_WRITTEN}{name}"


def _is_of_the_user(package: str, file: str) -> bool:
    """Whether the working directory has a module or package of this name."""
    here = Path.cwd()
    folders = (*(here / folder for folder in sources.ROOTS), (here / file).parent)
    return any((folder / package).exists() or (folder / f"{package}.py").exists() for folder in folders)
