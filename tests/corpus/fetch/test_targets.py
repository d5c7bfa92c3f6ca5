import pytest

from jupyt5_corpus.compression import compress
from jupyt5_corpus.fetch.targets import Failure, Target, read_targets, without_credentials


def read(tmp_path, *lines):
    path = tmp_path / "list.txt"
    path.write_bytes(
        b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines)
    )
    return list(read_targets(path))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://github.com/ann/book", ("github.com", "ann", "book")),
        ("https://github.com/ann/book.git/", ("github.com", "ann", "book")),
        ("http://user:pw@Example.org:8080/a/b/c.git", ("example.org:8080", "a.b", "c")),
        ("git://[::1]:9418/a/b", ("[::1]:9418", "a", "b")),
        ("https://example.org/book", ("example.org", "example.org", "book")),
    ],
)
def test_addresses(tmp_path, url, expected):
    (target,) = read(tmp_path, url)
    assert isinstance(target, Target)
    assert (target.host, target.owner, target.name) == expected
    assert target.url == url


BAD = [
    "ext::sh -c touch% /tmp/x",
    "ext::sh",
    "file:///etc",
    "/srv/repository",
    "../repository",
    "ssh://git@github.com/ann/book",
    "git@github.com:ann/book.git",
    "-u./run",
    "--upload-pack=touch x",
    "https://-oProxyCommand=x/ann/book",
    "https://github.com/ann/--upload-pack=x",
    "https://github.com/../../etc",
    "https://github.com/",
    "https://github.com/ann/book?x=1",
    "https://github.com/ann/bo ok",
    "https://github.com/ann/b\x1b[31mook",
    "https://github.com:port/ann/book",
    "https://[github/ann/book",
    "https://github.com/ann/" + "x" * 2000,
    "HTTPS://github.com/ann/book",
    "https:/github.com/ann/book",
    "transport::https://github.com/ann/book",
    "https://github.com/ann/..git",
    "https://github.com/ann/.git",
]


@pytest.mark.parametrize("url", BAD)
def test_what_git_must_not_be_given(tmp_path, url):
    (failure,) = read(tmp_path, url)
    assert isinstance(failure, Failure)
    assert failure.reason == "bad_url"
    assert failure.url.isprintable()


def test_lines_of_a_list(tmp_path):
    entries = read(
        tmp_path,
        "\ufeff# comment",
        "",
        "https://github.com/ann/book",
        '{"url": "https://github.com/ben/notes", "fork_of": "ann/book", "licence": "MIT"}',
        "https://github.com/Ann/Book.git",
        '{"url": 3}',
        "{broken",
        b"https://github.com/\xff/x",
        b"x" * 100_000,
        "https://github.com/cat/last",
    )
    kinds = [each.name if isinstance(each, Target) else each.reason for each in entries]
    assert kinds == [
        *("book", "notes", "listed_twice", "bad_line", "bad_line", "bad_url", "bad_line"),
        "last",
    ]
    notes = entries[1]
    assert isinstance(notes, Target)
    assert (notes.fork_of, notes.licence) == ("ann/book", "MIT")


def test_a_packed_list(tmp_path):
    path = tmp_path / "list.jsonl.zst"
    path.write_bytes(compress(b"https://github.com/ann/book\n" * 2))
    assert [type(each) for each in read_targets(path)] == [Target, Failure]


def test_passwords_do_not_show(tmp_path):
    (failure,) = read(tmp_path, "ssh://user:secret@example.org/a/b")
    assert failure.url == "ssh://example.org/a/b"
    said = "unable to access 'https://user:p@ss@example.org/a/b/': no, http://tok@x.org/"
    assert (
        without_credentials(said)
        == "unable to access 'https://example.org/a/b/': no, http://x.org/"
    )
