"""`jupyt5 providers` and `jupyt5 info`: what this installation has.

`providers --json` writes a list of `{"uri", "available", "detail"}`. `info --json` writes
`{"version", "python", "platform", "packages": {name: version | null}, "interface": path | null,
"models": [{"uri", "path", "size_bytes", "metrics": {name: number}}]}`.
"""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from jupyt5.cli.command import Command
from jupyt5.cli.output import note, write_json, write_text
from jupyt5.errors import CheckpointError

__all__ = ["COMMANDS"]

_PACKAGES = (
    "jupyterlab",
    "notebook",
    "jupyter-server",
    "ctranslate2",
    "tokenizers",
    "torch",
    "transformers",
    "llama-cpp-python",
    "pyarrow",
)

_INTERFACE = "jupyt5-labextension"


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="write JSON instead of text")


def _list_providers(options: argparse.Namespace) -> int:
    from jupyt5.providers import list_providers

    providers = list_providers()
    if options.json:
        write_json([asdict(provider) for provider in providers])
        return 0
    width = max(len(provider.uri) for provider in providers)
    for provider in providers:
        state = "" if provider.available else "  (not available)"
        write_text(f"{provider.uri:<{width}}  {provider.detail}{state}")
    return 0


def _show_info(options: argparse.Namespace) -> int:
    info = _collect_info()
    if options.json:
        write_json(asdict(info))
        return 0
    write_text(f"jupyt5 {info.version}, Python {info.python}, {info.platform}")
    write_text("\npackages")
    for name, version in info.packages.items():
        write_text(f"  {name:<16}  {version or 'not installed'}")
    write_text("\ninterface for JupyterLab and Notebook")
    write_text(f"  {info.interface or 'not installed'}")
    write_text("\nmodels")
    for model in info.models:
        write_text(f"  {model.uri}  {model.size_bytes / 1e6:.1f} MB  {model.path}")
        for name, value in model.metrics.items():
            write_text(f"    {name:<24}  {value:g}")
    if not info.models:
        write_text("  none")
    return 0


@dataclass(frozen=True, slots=True)
class _Model:
    uri: str
    path: str
    size_bytes: int
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Info:
    version: str
    python: str
    platform: str
    packages: Mapping[str, str | None]
    interface: str | None
    models: tuple[_Model, ...]


def _collect_info() -> _Info:
    import platform

    from jupyt5 import __version__

    return _Info(
        version=__version__,
        python=platform.python_version(),
        platform=platform.platform(terse=True),
        packages={name: _find_version(name) for name in _PACKAGES},
        interface=_find_interface(),
        models=tuple(_describe_models()),
    )


def _find_version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _find_interface() -> str | None:
    from jupyter_core.paths import jupyter_path

    folders = (Path(folder) / _INTERFACE for folder in jupyter_path("labextensions"))
    return next((str(folder) for folder in folders if (folder / "package.json").is_file()), None)


def _describe_models() -> Iterator[_Model]:
    from jupyt5.providers.places import bundled_folders, is_model_folder, own_model_folder

    for folder in (*bundled_folders(), own_model_folder()):
        if is_model_folder(folder):
            try:
                yield _describe_model(folder)
            except CheckpointError as exc:
                note(str(exc))


def _describe_model(folder: Path) -> _Model:
    from jupyt5.model.checkpoint import read_meta

    size_bytes = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
    return _Model(f"jupyt5:{folder.name}", str(folder), size_bytes, read_meta(folder).metrics)


COMMANDS = (
    Command(
        name="providers",
        summary="list what can fill cells",
        description="List what can fill cells, with the URI that names it.",
        epilog="examples:\n  jupyt5 providers\n  jupyt5 providers --json\n",
        configure=_configure,
        body=_list_providers,
    ),
    Command(
        name="info",
        summary="show versions, models and paths",
        description="Show versions, models with their measured numbers, and paths.",
        epilog="examples:\n  jupyt5 info\n  jupyt5 info --json\n",
        configure=_configure,
        body=_show_info,
    ),
)
