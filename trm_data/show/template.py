"""Pages from jinja2 templates, which are in a package's folder `templates` and ship in the wheel."""

from __future__ import annotations

import json
import re
from functools import cache
from html import escape
from typing import TYPE_CHECKING

from trm_data.show.table import markdown_cell, markdown_text

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


def render(package: str, template: str, **values: object) -> str:
    """Render a template; values are escaped in .html and .svg templates, unless they are `Markup`.

    Filters of all templates: `number` (with commas), `quoted` (as JSON), `words` (HTML, with code between backquotes),
    `markdown`, `cell` (of a Markdown table; code between backquotes stays), `foreign` (a cell without any Markdown),
    `printable`.
    """
    return _environment(package).get_template(template).render(values)


@cache
def _environment(package: str) -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=PackageLoader(package),
        autoescape=select_autoescape(["html", "svg"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "number": "{:,}".format,
        "quoted": json.dumps,
        "words": _words,
        "markdown": markdown_text,
        "cell": markdown_cell,
        "printable": _printable,
        "foreign": _foreign,
    }
    return environment


def _words(text: str) -> Markup:
    from markupsafe import Markup

    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text)))


def _printable(text: str) -> str:
    """Return text on one line, with unprintable characters as escapes."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def _foreign(text: str) -> str:
    """Return untrusted text for a Markdown table: no Markdown, no HTML, one line."""
    shown = escape(_printable(text), quote=False)
    return "".join(f"\\{letter}" if letter in "|`*_[]" else letter for letter in shown)
