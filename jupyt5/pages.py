"""Self-contained HTML pages: one file with its own style and script, that loads nothing.

A page's folder in a package holds its template and assets. Values are escaped by the template;
the content security policy allows just the one style sheet and the one script, by their hashes,
and lets the page load, send and evaluate nothing.
"""

import base64
import hashlib
import importlib.resources
from collections.abc import Mapping

__all__ = ["make_policy", "render_page"]


def render_page(package: str, values: Mapping[str, object], *, style: str, script: str) -> bytes:
    """Render ``page.html``, a template in Jinja's language.

    Args:
        package: Dotted name of the package whose folder holds template and assets.
        values: What the template is given, beside ``policy``, ``style`` and ``script``; escaped
            there, unless it is marked up already.
        style: File name of the style sheet.
        script: File name of the script; "" for a page without one.

    Returns:
        The page in UTF-8; lone surrogates have become question marks.

    Raises:
        jinja2.TemplateError: If the template asks for a value that is not there.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader(package, ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style_text = _read_asset(package, style)
    script_text = _read_asset(package, script) if script else ""
    page = environment.get_template("page.html").render(
        values,
        policy=Markup(make_policy(style_text, script_text)),
        style=Markup(style_text),
        script=Markup(script_text),
    )
    return page.encode("utf-8", "replace")


def make_policy(style: str, script: str) -> str:
    """Return a policy that allows this one style sheet and this one script, and nothing else."""
    parts = ["default-src 'none'"]
    if script:
        parts.append(f"script-src '{_hash(script)}'")
    return "; ".join(
        [
            *parts,
            f"style-src '{_hash(style)}'",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]
    )


def _read_asset(package: str, name: str) -> str:
    return (importlib.resources.files(package) / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode()
