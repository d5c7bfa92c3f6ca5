"""What is quoted of held-out notebooks: no secrets, and nothing of whom has opted out."""

import json

import pytest

from jupyt5_corpus.benchmark_making import make_index
from jupyt5_corpus.benchmark_sources import Part
from jupyt5_corpus.check import check_corpus
from jupyt5_corpus.content import cell_sha256
from jupyt5_corpus.decontamination import make_entries
from jupyt5_corpus.filters.holdout import hold_out
from jupyt5_corpus.filters.overlap import hold_out_overlap
from jupyt5_corpus.filters.secrets import prepare
from jupyt5_corpus.fingerprint import fingerprint
from jupyt5_corpus.holdout_lists import Holdouts
from jupyt5_corpus.opt_out import load
from jupyt5_corpus.opt_out_apply import apply_opt_out
from jupyt5_corpus.removals import NOT_QUOTED, cited_places, without_quotation
from jupyt5_corpus.row import Removal

TOKEN = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"  # of no account: a pattern, drawn by hand
EMAIL = "ann@uni-bremen.de"
PASSWORD = "aK3#x9LmQ2"
GRADED = f"login('{TOKEN}')\nwrite_to('{EMAIL}')\npassword = '{PASSWORD}'\nassert answer == 42"
SECRETS = (TOKEN, EMAIL, PASSWORD)
WORDS = " ".join(f"{word}_{number}" for number in range(20) for word in ("sum", "mean", "tide"))


@pytest.fixture(scope="module")
def rules_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rules")
    prepare(folder)
    return folder


@pytest.fixture
def recipe(tmp_path):
    """Make a recipe file of the steps named."""

    def write(*steps):
        path = tmp_path / "mine.yaml"
        path.write_text(f"name: mine\nsteps: [{', '.join(steps)}]\n")
        return path

    return write


@pytest.fixture
def held_out(tmp_path, make, build):
    """Build with a graded cell held out; ann/book has it, ben/copy its very notebook."""
    graded = make.notebook(("markdown", f"# Our exercise, to be done at home {WORDS}"), GRADED)
    members = {
        "ann/book/one.ipynb": graded,
        "ben/copy/one.ipynb": graded,
        "cat/lab/own.ipynb": make.notebook("print('a note that is only in this repository')"),
    }
    (tmp_path / "0.tar").write_bytes(make.tar(members))

    def run(recipe):
        entry = {"source": "OURS", "cell_sha256": cell_sha256(GRADED)}
        build(tmp_path / "0.tar", recipe=recipe, holdout=make.json_lines(entry))
        return tmp_path / "corpus"

    return run


def report_of(folder):
    return [
        json.loads(line) for line in (folder / "decontamination.jsonl").read_text().splitlines()
    ]


def test_quotations_have_no_secrets_where_the_recipe_looks_for_them(held_out, recipe, corpus):
    folder = held_out(recipe("parse", "holdout", "exact_duplicates", "secrets"))
    details = [each["detail"] for each in corpus.removals(folder)]
    quoted = "login('<KEY>') write_to('<EMAIL>') password = '<PASSWORD>' assert answer == 42"
    assert details == [f"OURS: cell 1 is {cell_sha256(GRADED)}: {quoted}"] * 2
    for name in ("decontamination.jsonl", "decontamination.html"):
        assert not any(secret in (folder / name).read_text() for secret in SECRETS)
    assert [each["matched_text"] for each in report_of(folder)] == [quoted] * 2


def test_quotations_are_to_the_letter_where_it_does_not(held_out, recipe):
    folder = held_out(recipe("parse", "holdout", "exact_duplicates"))
    assert all(secret in report_of(folder)[0]["matched_text"] for secret in SECRETS)


def test_a_secret_that_only_the_rest_of_the_notebook_tells_is_not_quoted(make, rules_dir):
    key = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"
    cell = f"connect('{key}', timeout_s=30, retries=3)"
    row = make.row(cells=make.cells(f"wandb.login(key='{key}')", cell))
    holdouts = Holdouts(repos={}, contents={}, cells={cell_sha256(cell): "OURS"})
    removal = hold_out(row, holdouts, rules_dir=rules_dir)
    assert isinstance(removal, Removal)
    assert removal.detail.endswith(": connect('<KEY>', timeout_s=30, retries=3)")


@pytest.mark.parametrize("place", ["before", "inside"])
def test_an_overlap_is_quoted_without_secrets(make, rules_dir, place):
    line = f"\n# password = '{PASSWORD}', {EMAIL}\n"
    problem = " ".join(f"word{number * 7919}" for number in range(80))
    source = line + problem
    if place == "inside":
        source = problem = problem.replace(" word31676 ", f" word31676 {line}")
    index = make_index([Part(problem="T/1", origin="T/1", text=problem)], [], [])
    cells = make.cells("x = 1", source)
    removal = hold_out_overlap(
        make.row(cells=cells), fingerprint(cells), index, rules_dir=rules_dir
    )
    assert isinstance(removal, Removal)
    text = removal.detail.partition("; cell 1: ")[2]
    assert "word" in text
    assert not any(secret in text for secret in SECRETS)
    if place == "before":
        assert text.startswith("word0 word7919 ")


@pytest.fixture
def opted_out(held_out, recipe, tmp_path, make):
    """Opt an entry out of the corpus with copies of the held-out ann/book; return the folder."""

    def run(entry, *, copies=False):
        folder = held_out(recipe("parse", "holdout", "exact_duplicates"))
        path = tmp_path / "list.jsonl"
        path.write_bytes(make.json_lines(entry))
        out = tmp_path / "less"
        apply_opt_out(folder, out, load(path), with_copies=copies)
        return folder, out

    return run


@pytest.mark.parametrize(
    ("entry", "copies", "num_left"),
    [
        ({"repo": "Ann/Book"}, False, 1),
        ({"owner": "ann"}, False, 1),
        ({"repo": "ann/book"}, True, 0),
        ({"owner": "cat"}, True, 2),
    ],
)
def test_quotations_of_opted_out_notebooks_go(opted_out, corpus, entry, copies, num_left):
    folder, out = opted_out(entry, copies=copies)
    for name in ("decontamination.jsonl", "decontamination.html"):
        assert sum("answer" in line for line in (out / name).read_text().splitlines()) == num_left
        assert sum("answer" in line for line in (folder / name).read_text().splitlines()) == 2
    before = [each for each in corpus.removals(folder) if each["step"] == "holdout"]
    after = [each for each in corpus.removals(out) if each["step"] == "holdout"]
    assert sum("answer" in each["detail"] for each in after) == num_left
    for old, new in zip(before, after, strict=True):
        assert old | {"detail": ""} == new | {"detail": ""}
        assert new["detail"].startswith(f"OURS: cell 1 is {cell_sha256(GRADED)}: ")
    entries = report_of(out)
    assert sum(each["matched_text"] is None for each in entries) == 2 - num_left
    assert {(each["benchmark"], each["cell_idx"]) for each in entries} == {("OURS", 1)}
    assert check_corpus(out) == ()


def test_an_opted_out_content_is_not_quoted(opted_out, corpus, held_out, recipe):
    content = corpus.removals(held_out(recipe("parse", "holdout", "exact_duplicates")))[0]
    _, out = opted_out({"content_sha256": content["content_hash"]})
    assert b"assert answer" not in b"".join(
        (out / f"decontamination.{kind}").read_bytes() for kind in ("html", "jsonl")
    )


def test_a_near_copy_does_not_quote_its_opted_out_origin(make, build, recipe, corpus, tmp_path):
    text = "markdown", " ".join(f"{WORDS} {number}" for number in range(20))
    members = {
        "ann/book/one.ipynb": make.notebook(text, GRADED),
        "ben/copy/one.ipynb": make.notebook(text, f"{GRADED} or 43"),
    }
    (tmp_path / "0.tar").write_bytes(make.tar(members))
    held = make.json_lines({"source": "OURS", "cell_sha256": cell_sha256(GRADED)})
    steps = recipe("parse", "holdout", "exact_duplicates", "near_duplicates")
    manifest = build(tmp_path / "0.tar", recipe=steps, holdout=held)
    assert manifest["removed"] == {"holdout_cell": 1, "holdout_near_copy": 1}
    (tmp_path / "list.jsonl").write_bytes(make.json_lines({"repo": "ann/book"}))
    out = tmp_path / "less"
    apply_opt_out(tmp_path / "corpus", out, load(tmp_path / "list.jsonl"))
    assert all("answer" in each["detail"] for each in corpus.removals(tmp_path / "corpus"))
    assert not any("answer" in each["detail"] for each in corpus.removals(out))
    assert "answer" not in (out / "decontamination.html").read_text()
    assert [each["benchmark"] for each in report_of(out)] == ["OURS", "OURS"]


def test_quotations_are_found_in_every_kind_of_detail():
    quoting = "OURS: cell 1 is " + "a" * 64 + ": assert answer"
    copy = removal_of(
        "ben/copy", "holdout_near_copy", f"similar to ann/book/a (1).ipynb ({quoting})"
    )
    assert "ann/book/a (1).ipynb" in list(cited_places(copy))
    bare = without_quotation(copy)
    assert bare.detail == copy.detail.replace("assert answer", NOT_QUOTED)
    (entry,) = make_entries([bare])
    assert entry.benchmark == "OURS"
    overlap = removal_of(
        "ann/book", "holdout_overlap", "MBPP: 21 n-grams of 8 words of MBPP/7; cell 3: def f():"
    )
    (entry,) = make_entries([without_quotation(overlap)])
    assert (entry.problem, entry.cell_idx, entry.matched_text) == ("MBPP/7", 3, None)
    plain = removal_of("ann/book", "holdout_repo", "OURS: repository ann/book")
    assert without_quotation(plain) is plain


def removal_of(repo, reason, detail):
    return Removal(
        repo=repo,
        path="one.ipynb",
        commit=None,
        blob_sha=None,
        fork_of=None,
        content_hash="c" * 64,
        is_substantial=True,
        step="holdout",
        reason=reason,
        detail=detail,
    )
