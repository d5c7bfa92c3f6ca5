"""The late steps on the shared corpus: what they change, and how often they are wrong."""

import tarfile
from collections import Counter

import pytest

from jupyt5.errors import NotebookError
from jupyt5.notebook import read_notebook
from jupyt5_corpus.compression import open_packed
from jupyt5_corpus.filters.language import fill_language, guess_language
from jupyt5_corpus.filters.quality import measure
from jupyt5_corpus.filters.secrets import redact
from jupyt5_corpus.filters.spans import EMAIL, IP_ADDRESS, KEY, PASSWORD
from jupyt5_corpus.row import CellText, Removal

PLACEHOLDERS = (KEY, PASSWORD, EMAIL, IP_ADDRESS)


def read_rows(folder, make):
    for path in sorted(folder.glob("*.tar.zst")):
        with open_packed(path) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                if not member.name.endswith(".ipynb"):
                    continue
                member_stream = archive.extractfile(member)
                assert member_stream is not None
                try:
                    notebook = read_notebook(member_stream.read(), name=member.name)
                except NotebookError:
                    continue
                cells = tuple(
                    CellText(kind=each.kind, source=each.source) for each in notebook.cells
                )
                yield make.row(cells=cells, language=notebook.language, kernel=notebook.kernel)


def count_placeholders(row):
    return {each: sum(cell.source.count(each) for cell in row.cells) for each in PLACEHOLDERS}


@pytest.mark.slow
def test_the_shared_corpus(shared_corpus, make):
    """Looked at one by one, of the replacements below these are no secrets of anyone:

    11 of 26 keys and passwords (examples of tutorials, such as ``minio123``), 59 of 511 e-mail
    addresses (invented ones) and 12 of 29 IP addresses (invented ones): 82 in 610,674 cells, 0.13
    in 1,000. None was anything else than a credential or an address by its form. The corpus was
    cleaned of notebooks with credentials before, so the share of false ones is high.
    """
    replaced, reasons, guesses = Counter(), Counter(), Counter()
    num_cells = num_redacted = 0
    for idx, row in enumerate(read_rows(shared_corpus, make)):
        num_cells += len(row.cells)
        redacted = redact(row)
        assert len(redacted.cells) == len(row.cells)
        if redacted is not row:
            num_redacted += 1
            before, after = count_placeholders(row), count_placeholders(redacted)
            replaced.update({each: after[each] - before[each] for each in PLACEHOLDERS})
            assert sum(after.values()) - sum(before.values()) == redacted.num_redactions
        measured = measure(row)
        if isinstance(measured, Removal):
            reasons[measured.reason] += 1
        # Of the many Python notebooks every tenth.
        told = fill_language(row) if row.language else None
        if told and (told.language != "python" or idx % 10 == 0):
            code = [cell.source for cell in row.cells if cell.kind == "code"]
            guess = guess_language(code) if code else None
            verdict = "open" if guess is None else guess == told.language
            guesses["python" if told.language == "python" else "others", verdict] += 1
    assert num_cells == 610_674
    assert reasons == {"no_text": 24}
    assert dict(replaced) == {KEY: 20, PASSWORD: 6, EMAIL: 512, IP_ADDRESS: 29}
    assert num_redacted == 446
    # Where the cells alone are asked about a language that the metadata tell.
    num_python = sum(count for (language, _), count in guesses.items() if language == "python")
    assert guesses["python", True] > 0.94 * num_python
    assert guesses["python", False] < 0.003 * num_python
    num_others = guesses.total() - num_python
    assert guesses["others", True] > 0.6 * num_others
    assert guesses["others", False] < 0.08 * num_others
