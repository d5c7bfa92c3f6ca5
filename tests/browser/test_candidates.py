"""The panel of candidates: cycling, accepting, rejecting, by keyboard and by mouse."""

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

# Three hypotheses, two of them alike.
THREE = "fake:text=a+%3D+1&text=b+%3D+2&text=c+%3D+3&logprob=-0.5"
TWICE = "fake:text=a+%3D+1&text=b+%3D+2&text=a+%3D+1"
LONG = "fake:text=def+f(x):%0A++++y+%3D+x%0A++++return+y"
MARKDOWN = {"cell_type": "markdown", "id": "m", "metadata": {}, "source": "Set it."}


def code(source: str, cell_id: str = "c") -> dict[str, object]:
    return {
        "cell_type": "code",
        "id": cell_id,
        "metadata": {},
        "source": source,
        "execution_count": None,
        "outputs": [],
    }


@pytest.fixture
def fill_with(open_notebook, use_provider):
    """Open the panel on the second cell, with a provider's candidates in it."""

    def fill(uri: str, source: str = "", **cell: object):
        use_provider(uri)
        notebook = open_notebook([MARKDOWN, code(source) | cell, code("print(1)", "after")])
        notebook.click(1)
        notebook.press("Control+End")
        notebook.press("Alt+j")
        notebook.wait_for_candidates()
        return notebook

    return fill


def shown(notebook) -> str:
    return notebook.panel.locator(".jp-jupyt5-panel-code").inner_text().strip()


def counter(notebook):
    return notebook.panel.locator(".jp-jupyt5-panel-counter")


def press_and_read(notebook, key: str, wanted: str) -> str:
    notebook.press(key)
    expect(counter(notebook)).to_have_text(wanted)
    notebook.page.wait_for_timeout(50)
    return shown(notebook)


def test_cycling_wraps_around_and_changes_nothing(fill_with):
    notebook = fill_with(THREE)
    expect(counter(notebook)).to_have_text("1/3")
    keys = [("Alt+]", "2/3"), ("Alt+]", "3/3"), ("Alt+]", "1/3"), ("Alt+[", "3/3")]
    texts = [press_and_read(notebook, *step) for step in keys]
    assert texts == ["b = 2", "c = 3", "a = 1", "c = 3"]
    expect(notebook.panel.locator("[role=status]")).to_have_text("Candidate 3 of 3")
    assert notebook.source(1) == ""
    assert not notebook.is_dirty()
    notebook.press("Alt+j")
    notebook.expect_source(1, "c = 3")
    expect(notebook.panel).to_have_count(0)
    notebook.press("Control+z")
    notebook.expect_source(1, "")


def test_a_duplicate_is_shown_once(fill_with):
    expect(counter(fill_with(TWICE))).to_have_text("1/2")


def test_reject_leaves_the_document_alone(fill_with, page):
    notebook = fill_with(THREE, "# mine")
    page.keyboard.press("Alt+]")
    notebook.press("Escape")
    expect(notebook.panel).to_have_count(0)
    assert notebook.source(1) == "# mine"
    assert not notebook.is_dirty()
    page.keyboard.type("!")  # the editor still has the focus
    notebook.expect_source(1, "# mine!")


def test_mouse(fill_with):
    notebook = fill_with(THREE)
    notebook.panel.get_by_role("button", name="Next candidate").click()
    expect(counter(notebook)).to_have_text("2/3")
    notebook.panel.get_by_text("Accept", exact=True).click()
    notebook.expect_source(1, "b = 2")
    notebook.page.keyboard.type(" + 1")  # the editor still has the focus
    notebook.expect_source(1, "b = 2 + 1")


def test_keys_with_the_focus_in_the_panel(fill_with, page):
    notebook = fill_with(THREE)
    notebook.press("Alt+g")
    expect(notebook.panel.locator(".jp-jupyt5-panel-code")).to_be_focused()
    # The first two are the notebook's one-letter commands: they must not act in here.
    for key in ("x", "b", "ArrowRight"):
        notebook.press(key)
    expect(counter(notebook)).to_have_text("2/3")
    notebook.press("Alt+[")
    expect(counter(notebook)).to_have_text("1/3")
    notebook.press("Enter")
    notebook.expect_source(1, "a = 1")
    page.keyboard.type("0")
    notebook.expect_source(1, "a = 10")
    assert page.evaluate("window.jupyterapp.shell.currentWidget.content.model.cells.length") == 3


def test_every_button_has_a_name_and_its_key(fill_with):
    panel = fill_with(THREE).panel
    names = [each.get_attribute("aria-label") for each in panel.get_by_role("button").all()]
    assert all(names)
    assert any("Alt+J" in name for name in names)
    assert panel.get_by_role("region", name="Candidate 1 of 3").count() == 1
    assert panel.get_attribute("role") == "group"


def test_candidates_are_coloured(fill_with):
    notebook = fill_with(LONG)
    keyword = notebook.panel.locator("span", has_text="return").first
    plain = notebook.panel.locator(".jp-jupyt5-panel-code")
    colour = "node => getComputedStyle(node).color"
    expect(keyword).to_be_visible()
    assert keyword.evaluate(colour) != plain.evaluate(colour)


def test_try_again_brings_others(fill_with):
    notebook = fill_with("fake:text=a&text=b&text=c&text=d&text=e")
    assert shown(notebook) == "a"
    notebook.press("Alt+r")
    notebook.wait_for_candidates()
    notebook.page.wait_for_timeout(100)
    assert shown(notebook) == "b"
    notebook.press("Alt+j")
    notebook.expect_source(1, "b")


def test_no_suggestion(fill_with):
    notebook = fill_with("fake:text=")
    expect(notebook.panel).to_contain_text("no suggestion")
    notebook.press("Alt+j")
    assert notebook.source(1) == ""
    notebook.press("Escape")
    expect(notebook.panel).to_have_count(0)


def test_what_is_sent(fill_with, fill_requests):
    notebook = fill_with(THREE, "x = ")
    notebook.panel.get_by_role("button", name="What is sent?").click()
    sent = notebook.panel.locator(".jp-jupyt5-panel-sent")
    for words in ("Set it.", "x = ▮", "print(1)"):
        expect(sent).to_contain_text(words)
    expect(sent).to_contain_text(re.compile(r"fake:\S+ gets \d+ tokens"))
    assert len(fill_requests) == 1


def test_line_by_line(fill_with):
    notebook = fill_with(LONG)
    notebook.press("Alt+h")
    notebook.expect_source(1, "def f(x):")
    expect(notebook.panel.locator("del")).to_have_count(0)
    notebook.press("Alt+h")
    notebook.expect_source(1, "def f(x):\n    y = x")
    # Each part is a step of its own, and taking one back ends the session.
    notebook.press("Control+z")
    notebook.expect_source(1, "def f(x):")
    expect(notebook.panel).to_have_count(0)
    notebook.press("Control+Shift+z")
    notebook.expect_source(1, "def f(x):\n    y = x")


def test_word_by_word_and_then_the_rest(fill_with):
    notebook = fill_with(LONG)
    for wanted in ("def", "def f", "def f("):
        notebook.press("Alt+k")
        notebook.expect_source(1, wanted)
    notebook.press("Alt+j")
    notebook.expect_source(1, "def f(x):\n    y = x\n    return y")
    expect(notebook.panel).to_have_count(0)


def test_the_last_word_closes_the_panel(fill_with):
    notebook = fill_with("fake:text=a+%3D+1")
    for _ in range(3):
        notebook.press("Alt+k")
    notebook.expect_source(1, "a = 1")
    expect(notebook.panel).to_have_count(0)


def test_diff_against_what_is_there(fill_with):
    notebook = fill_with("fake:text=b+%3D+2", "a = 1\n\nb = 1")
    notebook.press("Escape")
    notebook.press("Shift+Home")  # the last line is replaced
    notebook.press("Alt+j")
    notebook.wait_for_candidates()
    notebook.page.wait_for_timeout(100)
    lines = notebook.panel.locator(".jp-jupyt5-panel-line")
    rows = [(row.get_attribute("data-kind"), row.inner_text().strip()) for row in lines.all()]
    assert rows == [("same", "a = 1"), ("same", ""), ("removed", "b = 1"), ("added", "b = 2")]
    notebook.press("Alt+j")
    notebook.expect_source(1, "a = 1\n\nb = 2")


def test_trying_needs_a_consent_and_puts_the_passing_candidate_first(
    open_notebook, use_provider, fill_requests, lab
):
    use_provider("fake:text=a+%3D+1&text=a+%3D+2&logprob=-0.5")
    notebook = open_notebook([MARKDOWN, code(""), code("assert a == 2", "test")])
    if not lab.call(f"jupyt5/api/consent?notebook_path={notebook.path.name}")["available"]:
        pytest.skip("This machine cannot wall a candidate in.")
    notebook.click(1)
    notebook.press("Alt+j")
    notebook.wait_for_candidates()
    assert "try" not in fill_requests[-1]
    box = notebook.panel.get_by_role("checkbox", name="Try against the next cell")
    expect(box).not_to_be_checked()
    notebook.press("Alt+t")
    badge = notebook.panel.locator(".jp-jupyt5-panel-badge")
    expect(badge).to_have_text("✓ passes the next cell", timeout=60_000)
    notebook.wait_for_candidates()
    assert fill_requests[-1]["try"] == {"grading_idx": 2}
    assert shown(notebook) == "a = 2"
    expect(box).to_be_checked()
    assert press_and_read(notebook, "Alt+]", "2/2") == "a = 1"
    expect(badge).to_have_text("✗ fails the next cell")
    assert not notebook.is_dirty()
