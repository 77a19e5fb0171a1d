"""The templates of pages: Jinja templates in `reports/templates` that escape everything they are given."""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template


@cache
def template(name: str) -> Template:
    """The template in the file `name`. Rendering it fails for a name that it uses and is not given."""
    pages = Environment(
        loader=PackageLoader("reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return pages.get_template(name)
