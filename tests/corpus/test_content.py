import hashlib

from jupyt5_corpus.content import (
    cell_sha256,
    content_hash,
    estimate_num_tokens,
    git_blob_sha,
    is_substantial,
)


def test_content_hash_is_what_its_description_says(make):
    cells = make.cells(("markdown", "# é"), "x = 1\ny = 2")
    written = b"markdown 4\n" + "# é".encode() + b"code 11\nx = 1\ny = 2"
    assert content_hash(cells) == hashlib.sha256(written).hexdigest()


def test_line_ends_do_not_count_but_kinds_order_and_cell_borders_do(make):
    base = content_hash(make.cells("a\nb", "c"))
    assert content_hash(make.cells("a\r\nb", "c")) == base
    assert content_hash(make.cells("a\rb", "c")) == base
    others = [("c", "a\nb"), ("a\nbc",), ("a\nb", ("raw", "c")), ("a\nb ", "c"), ("a\nb", "c", "")]
    assert base not in {content_hash(make.cells(*other)) for other in others}


def test_git_blob_sha_is_git_s():
    assert git_blob_sha(b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert git_blob_sha(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"


def test_cell_sha256_takes_the_source_as_it_stands():
    assert cell_sha256("a\r\n") == hashlib.sha256(b"a\r\n").hexdigest()


def test_tokens_are_bytes_over_three_and_a_half(make):
    assert estimate_num_tokens(make.cells("x" * 7, "é" * 7)) == 6
    assert estimate_num_tokens(()) == 0


def test_substantial_counts_characters_without_white_space():
    assert not is_substantial(["x" * 39 + " " * 100])
    assert is_substantial(["x " * 20, "\n" + "y" * 20])
