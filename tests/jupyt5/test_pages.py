"""Pages carry their assets, allow nothing else, and escape what they are given."""

import base64
import hashlib
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from jupyt5.pages import make_policy, render_page


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / "some_pages"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "page.html").write_text(
        '<meta content="{{ policy }}"><style>{{ style }}</style><p>{{ text }}</p>'
        "{% if script %}<script>{{ script }}</script>{% endif %}"
    )
    (folder / "a.css").write_text("p > b { color: red; }")
    (folder / "a.js").write_text("if (1 < 2) {}")
    monkeypatch.syspath_prepend(tmp_path)
    return "some_pages"


def digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_assets_stand_in_the_page_as_they_are_and_values_do_not(package: str) -> None:
    values = {"text": "<script>alert(1)</script> \ud800"}
    page = render_page(package, values, style="a.css", script="a.js").decode()
    assert "<style>p > b { color: red; }</style>" in page
    assert "<script>if (1 < 2) {}</script>" in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; ?" in page
    assert f"script-src 'sha256-{digest('if (1 < 2) {}')}'" in page
    assert f"style-src 'sha256-{digest('p > b { color: red; }')}'" in page


def test_without_a_script_none_may_run(package: str) -> None:
    page = render_page(package, {"text": ""}, style="a.css", script="").decode()
    assert "<script>" not in page
    assert "script-src" not in page
    assert make_policy("", "").startswith("default-src 'none'; style-src")


def test_a_value_that_is_missing_is_an_error(package: str) -> None:
    with pytest.raises(UndefinedError):
        render_page(package, {}, style="a.css", script="")
