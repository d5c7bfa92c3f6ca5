"""What the package says about itself agrees everywhere."""

from __future__ import annotations

import importlib
import json
import re
import tomllib
from pathlib import Path

import pytest

import jupyt5

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "jupyt5": "jupyt5",
    "jupyt5_corpus": "corpus/jupyt5_corpus",
    "jupyt5_dsp": "dsp/jupyt5_dsp",
    "jupyt5_training": "training/jupyt5_training",
}
REQUIREMENT_NAME = re.compile(r"^[A-Za-z0-9._-]+")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def requirement_names(requirements: list[str]) -> set[str]:
    found = (REQUIREMENT_NAME.match(requirement) for requirement in requirements)
    return {normal(match.group()) for match in found if match}


def test_python_and_interface_have_one_version():
    package_json = json.loads((ROOT / "labextension" / "package.json").read_text())
    assert jupyt5.__version__ == package_json["version"]


def test_changelog_has_the_version():
    assert re.search(
        rf"^## \[{re.escape(jupyt5.__version__)}\]",
        (ROOT / "CHANGELOG.md").read_text(),
        re.MULTILINE,
    )


@pytest.mark.parametrize("name", PACKAGES)
def test_every_public_name_is_importable(name: str):
    package = importlib.import_module(name)
    public = getattr(package, "__all__", [])
    assert [name for name in public if not hasattr(package, name)] == []


def test_the_root_is_nearly_empty():
    assert jupyt5.__all__ == ["__version__", "load_ipython_extension"]


@pytest.mark.parametrize("folder", PACKAGES.values())
def test_package_is_typed_and_its_parent_is_no_package(folder: str):
    assert (ROOT / folder / "py.typed").exists()
    assert not (ROOT / folder).parent.joinpath("__init__.py").exists()


@pytest.mark.parametrize("name", PACKAGES)
def test_package_is_imported_from_its_own_folder(name: str):
    module_path = importlib.import_module(name).__file__
    assert module_path is not None
    assert Path(module_path).parent == ROOT / PACKAGES[name]


def test_base_install_names_no_training_package():
    assert requirement_names(PROJECT["dependencies"]).isdisjoint(
        {"torch", "transformers", "pyarrow", "pandas", "matplotlib"}
    )


def test_extra_all_holds_every_user_extra():
    (union,) = PROJECT["optional-dependencies"]["all"]
    held = set(union.partition("[")[2].rstrip("]").split(","))
    # `curate` and `collaborate` are not wanted by accident: they change JupyterLab. `gguf` compiles
    # where there is no wheel.
    apart = {"all", "dev", "node", "curate", "collaborate", "gguf"}
    assert held == set(PROJECT["optional-dependencies"]) - apart


def test_every_requirement_is_pinned_in_constraints():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert [pin for pin in pins if not re.fullmatch(r"[\w.-]+==[\w.]+", pin)] == []
    extras = PROJECT["optional-dependencies"]
    wanted = PROJECT["dependencies"] + [
        line for name in extras if name != "all" for line in extras[name]
    ]
    assert requirement_names(wanted) - requirement_names(pins) == set()
