"""The templates of scripts, `<backend>.py.jinja` in the folders below; there is no list of them."""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, nodes

from difftest.cases import flags
from difftest.cases.script_values import python

FOLDER, PROGRAMS, SUFFIX = "reproducers", "programs", ".py.jinja"


def backends(folder: str = FOLDER) -> tuple[str, ...]:
    """The backends that have a template, by name; those of programs are in the folder `PROGRAMS`."""
    templates = (
        name.removeprefix(f"{folder}/")
        for name in environment().list_templates()
        if name.startswith(f"{folder}/")
    )
    return tuple(sorted(name.removesuffix(SUFFIX) for name in templates if name.endswith(SUFFIX)))


@cache
def declares(backend: str, name: str) -> bool:
    """Whether a backend's template declares `name`, by `{% set name = true %}`."""
    loader = environment().loader
    assert loader is not None  # noqa: S101  `environment` gives it one
    source, _, _ = loader.get_source(environment(), f"{FOLDER}/{backend}{SUFFIX}")
    declared = environment().parse(source).find_all(nodes.Assign)
    return any(isinstance(one.target, nodes.Name) and one.target.name == name for one in declared)


@cache
def environment() -> Environment:
    """Templates of Python: text from outside goes through `repr`, and nothing is escaped for HTML."""
    jinja = Environment(  # noqa: S701  the output is not markup
        loader=PackageLoader("reports"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    jinja.filters["repr"] = python
    jinja.globals["unoptimised"] = flags.UNOPTIMISED
    return jinja
