import json
from collections import Counter

import pytest

from jupyt5.errors import CorpusError, UsageError
from jupyt5_corpus.holdout_lists import (
    HoldoutFile,
    bundled_file,
    count_entries,
    from_dsp_manifest,
    load,
    read_file,
)

GOOD = '{"source": "S", "repo": "Ann/Book", "cell_sha256": "' + "A" * 64 + '"}'


def test_entries_are_compared_in_lower_case_and_may_hold_several_facts():
    holdouts = load([HoldoutFile(name="x", data=f"\n{GOOD}\n\n".encode())])
    assert holdouts.repos == {"ann/book": "S"}
    assert holdouts.cells == {"a" * 64: "S"}
    assert holdouts.contents == {}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"repo": "a/b"}', 'no "source"'),
        ('{"source": "S"}', "none of repo"),
        ('{"source": "S", "repo": "owner/"}', "repo is 'owner/'"),
        ('{"source": "S", "cell_sha256": "12"}', "cell_sha256 is '12'"),
        ('{"source": "S", "content_sha256": 5}', "content_sha256 is 5"),
    ],
)
def test_a_bad_line_is_named_by_file_and_number(line, reason):
    with pytest.raises(CorpusError) as caught:
        load([HoldoutFile(name="mine.jsonl", data=f"{GOOD}\n{line}\n".encode())])
    assert "mine.jsonl:2" in str(caught.value)
    assert reason in str(caught.value)


def test_a_missing_list_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        read_file(tmp_path / "none.jsonl")


def test_the_bundled_list_names_the_dsp_repositories():
    counts = count_entries(load([bundled_file()]))
    assert counts == {"repo": 70, "content_sha256": 0, "cell_sha256": 1266}


def test_the_bundled_list_holds_facts_only():
    fields = Counter(
        field for line in bundled_file().data.splitlines() for field in json.loads(line)
    )
    assert fields == {"repo": 70, "cell_sha256": 1266, "source": 1336}


def test_the_bundled_list_is_what_the_command_makes_of_the_manifest(shared_corpus):
    manifest = shared_corpus.parent / "dsp" / "manifest.jsonl"
    if not manifest.is_file():
        pytest.skip("the shared DSP manifest (../shared/data/dsp/manifest.jsonl) is not here")
    assert from_dsp_manifest(manifest, "DSP") == bundled_file().data


def test_a_file_that_is_no_dsp_manifest_is_refused(tmp_path):
    path = tmp_path / "manifest.jsonl"
    path.write_text('{"repo": "a/b", "cell_sha256": "1"}\n')
    with pytest.raises(CorpusError, match=r"Line 1 .* has no repo, cell_sha256 or grading_sha256"):
        from_dsp_manifest(path, "DSP")
