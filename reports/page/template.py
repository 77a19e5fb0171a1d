"""The templates of pages: Jinja templates in `reports/templates` that escape everything they are given."""

import re
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

_CODE = re.compile("`([^`]+)`")


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
    pages.filters["with_code"] = _with_code
    return pages.get_template(name)


def _with_code(text: str) -> Markup:
    """A title, escaped, with what stands in backticks as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704  escaped first
