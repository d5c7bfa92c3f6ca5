"""Data files come from a server of the test's own; what is not exactly right is not written."""

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from jupyt5.console import EXIT_FAILED, EXIT_OK, EXIT_USAGE
from jupyt5_dsp import fetch_files as module
from jupyt5_dsp.cli import main
from jupyt5_dsp.fetch_files import DATA_SETS, DataFile, DataSet
from jupyt5_dsp.suites import list_suites

SHARED = Path(__file__).parents[3] / "shared" / "data"
CONTENTS = {"a.jsonl": b'{"a": 1}\n', "b.jsonl": b"\x1f\x8b\x00 bytes"}


class Handler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        del format, args


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "www"
    for name, content in CONTENTS.items():
        path = folder / "owner/repo/commit" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


@pytest.fixture
def mirror(files: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(files))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def data_set(monkeypatch: pytest.MonkeyPatch) -> None:
    files = tuple(
        DataFile(
            name=name,
            source=f"owner/repo/commit/{name}",
            sha256=hashlib.sha256(content).hexdigest(),
            num_bytes=len(content),
        )
        for name, content in CONTENTS.items()
    )
    known = DataSet(licence="CC0", home="https://example.org", files=files)
    monkeypatch.setattr(module, "DATA_SETS", {**DATA_SETS, "mbpp": known})


def fetch(out: Path, mirror: str) -> int:
    return main(["fetch", "mbpp", "--out", str(out), "--mirror", mirror])


def test_files_are_fetched_once_and_the_licence_is_shown(
    tmp_path: Path, mirror: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "data"
    assert fetch(out, mirror + "/") == EXIT_OK
    assert {path.name: path.read_bytes() for path in out.iterdir()} == CONTENTS
    assert "mbpp: licence CC0; https://example.org\n" in capsys.readouterr().out
    for path in (files / "owner/repo/commit").iterdir():
        path.unlink()
    assert fetch(out, mirror) == EXIT_OK
    assert capsys.readouterr().out.count("was there") == 2


def test_a_folder_is_a_mirror_too(tmp_path: Path, files: Path) -> None:
    assert fetch(tmp_path / "out", str(files)) == EXIT_OK
    assert (tmp_path / "out" / "a.jsonl").read_bytes() == CONTENTS["a.jsonl"]
    assert fetch(tmp_path / "other", str(tmp_path / "nothing")) == EXIT_USAGE


@pytest.mark.parametrize("content", [b'{"a": 2}\n', b"", b"x" * 200_000])
def test_another_file_is_refused(
    content: bytes, tmp_path: Path, mirror: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "owner/repo/commit/b.jsonl").write_bytes(content)
    assert fetch(tmp_path / "out", mirror) == EXIT_FAILED
    told = capsys.readouterr().err
    assert "is another file than expected" in told
    assert "that file was not written" in told
    # What came before it is right, and stays: the next try goes on from there.
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a.jsonl"]


def test_a_missing_file_and_a_dead_server_are_told(
    tmp_path: Path, mirror: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "owner/repo/commit/a.jsonl").unlink()
    assert fetch(tmp_path / "out", mirror) == EXIT_FAILED
    assert "404" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert fetch(tmp_path / "out", "http://127.0.0.1:9") == EXIT_FAILED
    assert "cannot be fetched" in capsys.readouterr().err


def test_what_is_there_is_never_overwritten(
    tmp_path: Path, mirror: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "b.jsonl").write_text("mine")
    assert fetch(out, mirror) == EXIT_USAGE
    assert "is something else" in capsys.readouterr().err
    assert [path.read_text() for path in out.iterdir()] == ["mine"]


def test_the_digests_are_those_of_the_shared_copies() -> None:
    if not (SHARED / "humaneval").is_dir():
        pytest.skip("the published sets (../shared/data/humaneval, mbpp) are not here")
    import gzip

    (humaneval,) = DATA_SETS["humaneval"].files
    path = SHARED / "humaneval" / humaneval.name
    assert hashlib.sha256(path.read_bytes()).hexdigest() == humaneval.sha256
    (mbpp,) = DATA_SETS["mbpp"].files
    content = gzip.decompress((SHARED / "mbpp" / "mbpp.jsonl.gz").read_bytes())
    assert (hashlib.sha256(content).hexdigest(), len(content)) == (mbpp.sha256, mbpp.num_bytes)


def test_homes_and_licences_are_the_suites(capsys: pytest.CaptureFixture[str]) -> None:
    for suite in list_suites():
        if suite.name in ("humaneval", "mbpp"):
            assert DATA_SETS[suite.name].licence == suite.licence
            assert DATA_SETS[suite.name].home == suite.home
    assert main(["suites"]) == EXIT_OK
    printed = capsys.readouterr().out
    assert "humaneval-v1" in printed
    assert "ids=evaluation" in printed
