"""Placeholders for secrets: where they go, what they count, and what cannot break them."""

import pytest
from detect_secrets.plugins import keyword

from jupyt5_corpus.content import estimate_num_tokens
from jupyt5_corpus.filters.credentials import WORDS, find_credentials, load_scanner
from jupyt5_corpus.filters.personal import find_addresses
from jupyt5_corpus.filters.secrets import prepare, redact
from jupyt5_corpus.filters.spans import EMAIL, KEY, PASSWORD, Span, fill_spans, settle_spans

TOKEN = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"  # of no account: a pattern, drawn by hand


def test_a_clean_notebook_is_the_same_row(make):
    row = make.row(cells=make.cells(("markdown", "# Sums"), "x = 1"))
    assert redact(row) is row


def test_cells_counts_and_tokens_change_but_the_hash_of_the_original_stays(make):
    cells = make.cells(f"t = '{TOKEN}'", ("markdown", "ask ann@uni-bremen.de"), "x = 1")
    row = redact(make.row(cells=cells, num_tokens_estimate=99))
    assert row.cells == make.cells("t = '<KEY>'", ("markdown", "ask <EMAIL>"), "x = 1")
    assert row.num_redactions == 2
    assert row.num_tokens_estimate == estimate_num_tokens(row.cells)
    assert row.content_hash == "c" * 64


def test_redacting_twice_changes_nothing_more(make):
    row = redact(make.row(cells=make.cells("password = 'aK3#x9LmQ2'", f"'{TOKEN}' 99.81.70.60")))
    again = redact(row)
    assert row.num_redactions == 3
    assert again.cells == row.cells


def test_a_key_is_replaced_wherever_it_stands(make):
    key = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"
    cells = make.cells(f"wandb.login(key='{key}')", f"# {key}{key}", ("raw", key))
    row = redact(make.row(cells=cells))
    assert [cell.source for cell in row.cells] == [
        "wandb.login(key='<KEY>')",
        "# <KEY><KEY>",
        "<KEY>",
    ]
    assert row.num_redactions == 4


@pytest.mark.parametrize("before", ["", "é ß 漢字 🎉\n", "İ" * 9 + "\n", "\r\n", "\0\n", "\ufeff"])
def test_places_are_right_after_odd_letters(make, before):
    row = redact(make.row(cells=make.cells(f"{before}password = 'aK3#x9LmQ2' # {TOKEN}")))
    assert row.cells[0].source == f"{before}password = '<PASSWORD>' # <KEY>"


def test_placeholders_of_documentation_stay(make):
    source = (
        "api_key = 'YOUR_API_KEY_1'\npassword = 'password'\ntoken = 'xxxx-xxxx-1234'\n"
        "secret = '...'\npwd = '1a1a-1a1a-1a1a'\npwd = '<PASSWORD>'\ntoken = '${TOKEN1}'\n"
        "aws_key = 'AKIAIOSFODNN7EXAMPLE'"
    )
    assert redact(make.row(cells=make.cells(source))).num_redactions == 0


def test_the_public_half_of_a_pair_stays(make):
    cells = make.cells("client_id = '9f86d081884c7d659a2feaa0c55ad015'", "AccountName=mydata01;")
    assert redact(make.row(cells=cells)).num_redactions == 0


@pytest.mark.parametrize(
    "text",
    [
        "ann@example.org",
        "you@mail.de",
        "ann@host.local",
        "noreply@github.com",
        "jane@yourcompany.com and a@b.com",
        "https://ann@bitbucket.org/ann/x",
        "wasbs://data@store.blob.core.windows.net/x",
        "robot@my-project.iam.gserviceaccount.com",
        "x@w.dot(y)",
        "x @ w.mean",
        "image@2x.png",
        "@app.route('/')",
        "f(x)\n@tf.function",
        "rsync data ann@cluster.uni-bremen.de:~/data",
    ],
)
def test_no_email(text):
    assert list(find_addresses(f"see {text} there")) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ann@uni-bremen.de", "ann@uni-bremen.de"),
        ("<a.b+c@x-y.co.uk>.", "a.b+c@x-y.co.uk"),
        ("Author:\\nann@gmail.com", "ann@gmail.com"),
        ("mailto:ann@gmail.com)", "ann@gmail.com"),
        ("to jane.doe@company.org.", "jane.doe@company.org"),
        ("http://81.99.70.60:80/x", "81.99.70.60"),
        ("ssh ubuntu@81.99.70.60", "81.99.70.60"),
        ("2a01:4f8:c17:abcd::1 up", "2a01:4f8:c17:abcd::1"),
    ],
)
def test_an_address_is_found_whole(text, found):
    (span,) = find_addresses(text)
    assert text[span.start : span.end] == found


@pytest.mark.parametrize(
    "text",
    [
        "192.168.99.70",
        "10.99.70.60",
        "127.0.0.1",
        "172.31.99.70",
        "203.0.113.99",
        "8.8.8.8",
        "999.99.99.99",
        "v99.81.70.60",
        "Chrome/99.81.70.60",
        "opencv==4.81.70.60",
        "1.99.81.70.60",
        "base-99.81.70.60",
        "3.11.4.1 Results",
        "a[::2] 12:30:45:99 std::vector::x aa:bb:cc:dd:ee:ff",
        "fe80::1:2:3:4 2001:db8:1:2::3 ::1",
    ],
)
def test_no_public_ip_address(text):
    assert list(find_addresses(text)) == []


def test_spans_of_one_kind_merge_and_a_password_wins_over_what_it_lies_in():
    spans = [Span(0, 9, KEY), Span(5, 12, KEY), Span(20, 40, KEY), Span(25, 30, PASSWORD)]
    spans += [Span(28, 44, EMAIL), Span(50, 52, EMAIL)]
    settled = settle_spans(spans)
    assert settled == [Span(0, 12, KEY), Span(25, 30, PASSWORD), Span(50, 52, EMAIL)]
    text = "".join(chr(97 + idx % 26) for idx in range(60))
    filled = fill_spans(text, settled)
    assert filled == f"<KEY>{text[12:25]}<PASSWORD>{text[30:50]}<EMAIL>{text[52:]}"


def test_every_keyword_of_the_detector_holds_one_of_our_words():
    """Only lines with a word are shown to it, so that loses nothing."""
    assert all(any(word in each for word in WORDS) for each in keyword.DENYLIST)


def test_whatever_the_detector_finds_passes_the_test_before_it(make):
    lines = [
        "{} = 'aK3#x9LmQ2'",
        '{}="aK3#x9LmQ2"',
        "'{}': 'aK3#x9LmQ2'",
        "{} => 'aK3#x9LmQ2'",
        "'aK3#x9LmQ2' == {}",
        "{} 'aK3#x9LmQ2';",
        "data.put('{}', 'aK3#x9LmQ2')",
    ]
    for line in lines:
        for word in ("password", "api_key", "db_pass", "client_secret"):
            cell = line.format(word)
            assert redact(make.row(cells=make.cells(cell))).num_redactions == 1, cell


@pytest.mark.parametrize(
    "text",
    [
        "@" * 100_000,
        "a@b." * 50_000,
        "1.2.3." * 50_000,
        ":a" * 100_000,
        "password='" * 20_000,
        "key\n" * 50_000,
        "\n".join(f"key = {'(' * 400}{number}" for number in range(200)),
        "-----BEGIN RSA PRIVATE KEY-----" * 2_000,
        "é@" * 50_000 + "\0",
        "".join(f"'ghp_{number:036d}' & " for number in range(2_000)),
    ],
    ids=lambda text: text[:12],
)
def test_hostile_text_ends_soon(text):
    # Without a clock: what is superlinear here would take minutes, and the suite has a limit.
    list(find_credentials(text, load_scanner(None)))
    list(find_addresses(text))


@pytest.mark.slow
def test_compiled_rules_are_kept_in_the_given_folder_only(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    prepare(tmp_path / "rules")
    assert any((tmp_path / "rules").iterdir())
    assert list(home.iterdir()) == []
