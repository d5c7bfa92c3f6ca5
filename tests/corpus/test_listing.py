import gzip
import json
from datetime import UTC, datetime

import pytest

from jupyt5_corpus.compression import compress
from jupyt5_corpus.fetch.targets import Target, read_targets
from jupyt5_corpus.listing import list_repositories

BEFORE = datetime(2021, 1, 1, tzinfo=UTC)


def repository(
    name,
    *,
    created: str | None = "2019-05-01T00:00:00Z",
    language: str | None = "Jupyter Notebook",
    **more,
):
    url = f"https://github.com/{name}"
    return {"full_name": name, "created_at": created, "language": language, "html_url": url, **more}


def pull_request(described):
    return {
        "type": "PullRequestEvent",
        "repo": {"name": described["full_name"]},
        "payload": {"pull_request": {"base": {"repo": described}, "head": {"repo": None}}},
    }


def fork(described, parent):
    return {"type": "ForkEvent", "repo": {"name": parent}, "payload": {"forkee": described}}


def lines_of(*entries):
    return b"".join(json.dumps(entry).encode() + b"\n" for entry in entries)


def run(tmp_path, *files, language="Jupyter Notebook"):
    paths = []
    for number, (suffix, data) in enumerate(files):
        paths.append(tmp_path / f"{number}{suffix}")
        paths[-1].write_bytes(data)
    out = tmp_path / "list.jsonl"
    counts = list_repositories(paths, out, language=language, before=BEFORE)
    return counts, [json.loads(line) for line in out.read_bytes().splitlines()]


EVENTS = lines_of(
    {"type": "PushEvent", "repo": {"name": "x/y"}, "payload": {"ref": "main"}},
    pull_request(repository("ben/notes")),
    pull_request(repository("ann/library", language="Python")),
    pull_request(repository("ann/young", created="2021-01-01T00:00:00Z")),
    pull_request(repository("ann/book", created="2020-12-31T23:59:59Z")),
    fork(repository("cat/book"), "ann/book"),
    # As events were before 2015.
    {
        "type": "WatchEvent",
        "repository": {
            "name": "old",
            "owner": "dan",
            "language": "Jupyter Notebook",
            "created_at": "2012/03/10 22:33:01 -0800",
            "url": "https://github.com/dan/old",
        },
    },
)


@pytest.mark.parametrize(
    ("suffix", "pack"), [(".json", bytes), (".json.gz", gzip.compress), (".json.zst", compress)]
)
def test_events_of_gh_archive(tmp_path, suffix, pack):
    counts, entries = run(tmp_path, (suffix, pack(EVENTS)))
    assert entries == [
        {"url": f"https://github.com/{name}.git", "created": created}
        | {"fork_of": fork_of, "licence": None}
        for name, created, fork_of in (
            ("ann/book", "2020-12-31T23:59:59Z", None),
            ("ben/notes", "2019-05-01T00:00:00Z", None),
            ("cat/book", "2019-05-01T00:00:00Z", "ann/book"),
            ("dan/old", "2012-03-11T06:33:01Z", None),
        )
    ]
    assert counts == {
        "documents": 7,
        "bad_lines": 0,
        "damaged_files": 0,
        "descriptions": 6,
        "other_language": 1,
        "too_young": 1,
        "without_date_or_name": 0,
        "repeated": 0,
        "listed": 4,
    }


@pytest.mark.parametrize("indent", [None, 2])
def test_answers_of_the_rest_search(tmp_path, indent):
    items = [
        repository("ann/book", license={"spdx_id": "MIT"}),
        repository("ben/notes", license={"spdx_id": "NOASSERTION"}),
        repository("cat/fork", parent={"full_name": "ann/book"}),
    ]
    document = json.dumps({"total_count": 3, "items": items}, indent=indent).encode()
    for data in (document, json.dumps(items, indent=indent).encode()):
        counts, entries = run(tmp_path, (".json", data))
        assert [(each["licence"], each["fork_of"]) for each in entries] == [
            ("MIT", None),
            (None, None),
            (None, "ann/book"),
        ]
        assert (counts["documents"], counts["listed"]) == (1, 3)


def test_the_list_is_the_same_in_whatever_order_files_come(tmp_path):
    one = lines_of(pull_request(repository("Ann/Book", license={"spdx_id": "MIT"})))
    two = lines_of(fork(repository("ann/book"), "zoe/book"), pull_request(repository("b/c")))
    three = lines_of(fork(repository("ann/book", created="2018-01-01T00:00:00Z"), "yan/book"))
    forwards = run(tmp_path, *((".json", data) for data in (one, two, three)))[1]
    backwards = run(tmp_path, *((".json", data) for data in (three, two, one)))[1]
    assert forwards == backwards
    assert [each["url"] for each in forwards] == [
        "https://github.com/Ann/Book.git",
        "https://github.com/b/c.git",
    ]
    assert forwards[0]["fork_of"] == "yan/book"


def test_what_cannot_be_used_is_counted(tmp_path):
    entries = [
        repository("a/b", created="yesterday"),
        repository("a/b", created=None),
        repository("../../etc"),
        repository("a/.."),
        repository("-a/b"),
        repository("a/b c"),
        {"repository": {"language": "Jupyter Notebook", "created_at": "2019-01-01"}},
    ]
    nested = b"[" * 500 + b"]" * 500
    bad = b"{broken\n" + b"\xff\n" + nested + b"\n3\n" + lines_of(*entries)
    cut = gzip.compress(lines_of(pull_request(repository("good/one"))) * 2000)[:-20]
    counts, listed = run(tmp_path, (".json", bad), (".json.gz", cut), (".json.gz", b"no gzip"))
    assert [each["url"] for each in listed] == ["https://github.com/good/one.git"]
    assert (counts["bad_lines"], counts["damaged_files"]) == (2, 2)
    assert counts["without_date_or_name"] == 7


def test_hosts_come_from_the_addresses_and_never_more_than_a_host(tmp_path):
    entries = [
        repository("a/a", html_url="https://git.example.org:8443/a/a"),
        repository("a/b", html_url="https://user:secret@example.org/a/b"),
        repository("a/c", html_url="https://-oProxyCommand=x/a/c"),
        repository("a/d", html_url=7),
    ]
    _, listed = run(tmp_path, (".json", lines_of(*entries)))
    assert [each["url"] for each in listed] == [
        "https://git.example.org:8443/a/a.git",
        "https://example.org/a/b.git",
        "https://github.com/a/c.git",
        "https://github.com/a/d.git",
    ]


def test_fetch_reads_the_list(tmp_path):
    run(tmp_path, (".json.gz", gzip.compress(EVENTS)))
    targets = list(read_targets(tmp_path / "list.jsonl"))
    assert all(isinstance(each, Target) for each in targets)
    assert [getattr(each, "fork_of", "") for each in targets] == [None, None, "ann/book", None]


def test_counts_add_up_and_capitals_of_the_language_do_not_matter(tmp_path):
    again = lines_of(repository("Ann/Book"), repository("eva/x", language=None))
    counts, listed = run(
        tmp_path, (".json", EVENTS), ("2.json", again), language="jupyter notebook"
    )
    assert "https://github.com/ben/notes.git" in [entry["url"] for entry in listed]
    assert counts["repeated"] == 1
    left_out = ("other_language", "too_young", "without_date_or_name", "repeated", "listed")
    assert counts["descriptions"] == sum(counts[name] for name in left_out)
