"""From a checkpoint folder to an exported one that fills cells, with random weights."""

import json
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest

from jupyt5.cli import main

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch", reason="the extra [train] is not installed")
    from jupyt5.model.checkpoint import CheckpointMeta, FormatterSettings, write_meta
    from jupyt5.model.presets import find_preset
    from jupyt5.model.seq2seq import build_model, save_model
    from jupyt5.tokenizer import train_tokenizer

    folder = tmp_path_factory.mktemp("checkpoint") / "debug"
    folder.mkdir()
    texts = [f"def f{k}(x):\n    return x + {k}\n\nprint(f{k}({k}))" for k in range(200)]
    tokenizer = train_tokenizer(texts, vocab_size=400)
    tokenizer.save(folder / "tokenizer.json")
    shape = find_preset("debug", vocab_size=tokenizer.vocab_size)
    save_model(build_model(shape, tokenizer.special, seed=0), folder)
    formatter = FormatterSettings(source_budget_tokens=64, max_target_tokens=16)
    write_meta(folder, CheckpointMeta(name="debug", formatter=formatter))
    return folder


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": "Add one."},
        {"cell_type": "code", "metadata": {}, "source": "def f1(x):", "outputs": []},
        {"cell_type": "code", "metadata": {}, "source": "print(f1(1))", "outputs": []},
    ]
    path = tmp_path / "n.ipynb"
    document = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def fill(notebook: Path, folder: Path, capsys: pytest.CaptureFixture[str], *more: str) -> list[str]:
    arguments = ["fill", str(notebook), "--cell", "1", "--provider", f"jupyt5:{folder}", "--json"]
    capsys.readouterr()
    assert main([*arguments, *more]) == 0
    return [line["raw"] for line in json.loads(capsys.readouterr().out)["hypotheses"]]


def test_exported_checkpoint_fills_cells(
    checkpoint: Path, notebook: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "exported"
    command = ["export", str(checkpoint), "--to", "ctranslate2", "--quantization", "float32"]
    assert main([*command, "--out", str(out)]) == 0
    assert f"jupyt5:{out}" in capsys.readouterr().err
    assert {"model.bin", "tokenizer.json", "jupyt5.json"} <= {path.name for path in out.iterdir()}
    # The same weights, decoded greedily by either runtime, say the same.
    assert fill(notebook, out, capsys) == fill(notebook, checkpoint, capsys)
    drawn = fill(notebook, out, capsys, "-n", "3", "--seed", "5")
    assert len(drawn) == 3
    assert fill(notebook, out, capsys, "-n", "3", "--seed", "5") == drawn
    assert fill(notebook, out, capsys, "-n", "3", "--seed", "6") != drawn


def test_process_ends_quietly_after_decoding(
    checkpoint: Path, notebook: Path, tmp_path: Path
) -> None:
    """A thread of the decoder that outlives the interpreter would abort the process."""
    from jupyt5.model.export import export_ctranslate2

    export_ctranslate2(checkpoint, tmp_path / "out")
    code = "import sys; from jupyt5.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "fill", str(notebook), "--cell", "1"]
    command += ["--provider", f"jupyt5:{tmp_path / 'out'}", "--max-tokens", "1", "--json"]
    for _ in range(12):
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        # Random weights may have nothing to say: that is exit code 1, with a message.
        assert ended.returncode in {0, 1}, ended.stderr
        assert "terminate" not in ended.stderr


def test_engine_ends_on_the_thread_that_lets_it_go(checkpoint: Path, tmp_path: Path) -> None:
    """On one of the library's own threads it would wait for itself, and abort."""
    from jupyt5.model.ct2_engine import Ct2Engine
    from jupyt5.model.decoding import DecodeRequest
    from jupyt5.model.export import export_ctranslate2
    from jupyt5.tokenizer import Tokenizer

    export_ctranslate2(checkpoint, tmp_path / "out")
    tokenizer = Tokenizer.load(tmp_path / "out" / "tokenizer.json")
    for _ in range(100):
        engine = Ct2Engine(tmp_path / "out", tokenizer, num_threads=1)
        request = DecodeRequest(source_ids=(5, 6, 7), temperature=0, max_tokens=8)
        list(engine.decode(request, threading.Event()))
        alive = weakref.ref(engine)
        del engine
        assert alive() is None


def test_damaged_checkpoint_leaves_nothing(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for path in checkpoint.iterdir():
        (damaged / path.name).write_bytes(path.read_bytes())
    (damaged / "model.safetensors").write_bytes(b"\0" * 100)
    assert main(["export", str(damaged), "--out", str(tmp_path / "out")]) == 1
    assert str(damaged) in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"damaged"}


def test_unknown_quantization_is_refused(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["export", str(checkpoint), "--quantization", "int3", "--out", str(out)]) == 2
    assert "int3" in capsys.readouterr().err
    assert not out.exists()
