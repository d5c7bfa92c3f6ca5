"""The `jupyt5` command as a whole, and its smaller subcommands."""

import json
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.sign import NotebookNotary

from jupyt5 import __version__
from jupyt5.cli import main
from jupyt5.cli.lab import DEMO_FOLDER, DEMO_NAMES, build_command
from jupyt5.errors import UsageError
from jupyt5.providers.places import OWN_URI, bundled_folders, own_model_folder
from jupyt5.server.offline import LAB_OFFLINE_ARGS

ROOT = Path(__file__).parents[2]
SUBCOMMANDS = ["fill", "lab", "providers", "info", "serve", "export", "import-fairseq", "import-hf"]


def call(*arguments: str) -> tuple[int, str]:
    """Run the command in this process; argparse leaves by SystemExit."""
    try:
        return main([*arguments]), ""
    except SystemExit as exc:
        return int(exc.code or 0), "exit"


@pytest.mark.parametrize("subcommand", SUBCOMMANDS)
def test_help_has_examples(subcommand: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(subcommand, "--help") == (0, "exit")
    text = capsys.readouterr().out
    assert f"usage: jupyt5 {subcommand}" in text
    assert f"examples:\n  jupyt5 {subcommand}" in text


def test_help_lists_every_subcommand(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--help") == (0, "exit")
    text = capsys.readouterr().out
    assert all(f"    {subcommand}" in text for subcommand in SUBCOMMANDS)
    assert call("--version") == (0, "exit")
    assert capsys.readouterr().out == f"jupyt5 {__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [[], ["nonsense"], ["providers", "--nonsense"], ["fill", "n.ipynb"], ["info", "--js"]],
)
def test_wrong_usage_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert call(*arguments) == (2, "exit")
    assert "usage: jupyt5" in capsys.readouterr().err


def test_start_loads_nothing_heavy() -> None:
    code = (
        "import sys, contextlib\n"
        "from jupyt5.cli import main\n"
        "with contextlib.suppress(SystemExit): main(['--help'])\n"
        "heavy = {'torch', 'transformers', 'ctranslate2', 'numpy', 'tokenizers', 'tornado',\n"
        "         'jupyter_server', 'orjson', 'tqdm', 'traitlets'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stderr == "[]\n"


def test_providers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["providers", "--json"]) == 0
    providers = json.loads(capsys.readouterr().out)
    assert {"jupyt5:nano", "fake:"} <= {provider["uri"] for provider in providers}
    assert all(set(provider) == {"uri", "available", "detail"} for provider in providers)
    assert main(["providers"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [provider["uri"] for provider in providers]


def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--json"]) == 0
    info = json.loads(capsys.readouterr().out)
    assert set(info) == {"version", "python", "platform", "packages", "interface", "models"}
    assert info["version"] == __version__
    assert info["packages"]["jupyterlab"]
    for model in info["models"]:
        assert set(model) == {"uri", "path", "size_bytes", "metrics"}
        assert model["size_bytes"] > 100_000
    assert main(["info"]) == 0
    assert capsys.readouterr().out.startswith(f"jupyt5 {__version__}, Python ")


def test_info_lists_the_users_own_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    own = own_model_folder()
    own.parent.mkdir(parents=True)
    own.symlink_to(bundled_folders()[0])
    assert main(["info", "--json"]) == 0
    models = json.loads(capsys.readouterr().out)["models"]
    assert [model["path"] for model in models if model["uri"] == OWN_URI] == [str(own)]
    own.unlink()
    own.mkdir()
    (own / "jupyt5.json").write_text("{")
    assert main(["info", "--json"]) == 0
    shown = capsys.readouterr()
    assert len(json.loads(shown.out)["models"]) == len(models) - 1
    assert str(own) in shown.err


def test_export_refuses_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["export", str(tmp_path / "none"), "--out", str(out)]) == 1
    assert "is no folder" in capsys.readouterr().err
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "kept").write_text("x")
    assert main(["export", str(tmp_path), "--out", str(tmp_path / "full")]) == 2
    assert "exists already" in capsys.readouterr().err
    assert not out.exists()


def test_export_names_the_extra_where_torch_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["export", str(tmp_path), "--out", str(tmp_path / "out")]) == 1
    assert "pip install 'jupyt5[train]'" in capsys.readouterr().err


def test_lab_is_offline_and_passes_arguments_on(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    command = build_command(
        ["--no-browser", "--port=8890", "data"], provider="fake:", folder=tmp_path
    )
    assert command[:3] == [sys.executable, "-m", "jupyterlab"]
    assert set(LAB_OFFLINE_ARGS) < set(command)
    assert "--JuPyT5App.provider=fake:" in command
    assert command[-3:] == ["--no-browser", "--port=8890", "data"]
    assert list(tmp_path.iterdir()) == [tmp_path / "data"]


def test_lab_opens_the_demos_and_never_overwrites_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    demos = tmp_path / DEMO_FOLDER
    command = build_command(["--port", "8890"], provider=None, folder=tmp_path)
    assert "--LabApp.default_url=/lab/tree/jupyt5-demos/demo.ipynb" in command
    assert f"--ServerApp.root_dir={tmp_path}" in command
    assert not any("provider" in argument for argument in command)
    assert sorted(path.name for path in demos.iterdir()) == sorted(DEMO_NAMES)
    notary = NotebookNotary()
    for path in demos.iterdir():
        assert notary.check_signature(nbformat.read(path, as_version=4))
    notary.store.close()
    (demos / "demo.ipynb").write_text("mine")
    (demos / "homework.ipynb").unlink()
    build_command([], provider=None, folder=tmp_path)
    assert (demos / "demo.ipynb").read_text() == "mine"
    assert json.loads((demos / "homework.ipynb").read_bytes())["nbformat"] == 4


def test_lab_goes_on_where_the_demos_cannot_be_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "notebook_secret").mkdir()  # no file to read the key from
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(data))
    demos = tmp_path / DEMO_FOLDER
    demos.mkdir()
    elsewhere = tmp_path / "elsewhere.ipynb"
    (demos / "homework.ipynb").symlink_to(elsewhere)
    build_command([], provider=None, folder=tmp_path)
    shown = capsys.readouterr().err
    assert "not signed" in shown
    assert "Trust Notebook" in shown
    assert (demos / "demo.ipynb").is_file()
    assert not elsewhere.exists()


def test_lab_signs_the_demos_before_they_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    there: list[bool] = []
    original = NotebookNotary.sign

    def sign(self: NotebookNotary, notebook: object) -> None:
        there.append(any((tmp_path / DEMO_FOLDER).iterdir()))
        original(self, notebook)

    monkeypatch.setattr(NotebookNotary, "sign", sign)
    build_command([], provider=None, folder=tmp_path)
    assert there == [False] * len(DEMO_NAMES)


def test_lab_leaves_the_root_to_whoever_names_one(tmp_path: Path) -> None:
    command = build_command(["--notebook-dir", "/data"], provider=None, folder=tmp_path)
    assert not any("root_dir" in argument or "default_url" in argument for argument in command)
    assert list(tmp_path.iterdir()) == []


def test_lab_refuses_a_wrong_provider_before_it_starts(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="jupyt5:nano"):
        build_command([], provider="nonsense", folder=tmp_path)
    assert list(tmp_path.iterdir()) == []
