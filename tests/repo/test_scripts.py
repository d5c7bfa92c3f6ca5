"""The scripts behind make: what they look for and what they say when it is not there."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def whole_wheel(check_wheel: ModuleType) -> dict[str, int]:
    packages = [
        f"{name}/{file}" for name in check_wheel.PACKAGES for file in ("__init__.py", "py.typed")
    ]
    data = "jupyt5-0.1.0.data/data"
    extension = f"{data}/share/jupyter/labextensions/jupyt5-labextension"
    interface = [
        f"{extension}/{file}"
        for file in (
            "package.json",
            "install.json",
            "static/remoteEntry.0123.js",
            "static/style.js",
            "schemas/jupyt5-labextension/plugin.json",
        )
    ]
    config = f"{data}/etc/jupyter/jupyter_server_config.d/jupyt5.json"
    model = [f"{check_wheel.MODEL}/{file}" for file in check_wheel.MODEL_FILES]
    demos = [f"jupyt5/demo/{name}.ipynb" for name in ("data-analysis", "demo", "homework")]
    others = [config, *demos, "jupyt5-0.1.0.dist-info/METADATA"]
    return dict.fromkeys([*packages, *interface, *model, *others], 9)


def test_whole_wheel_has_no_fault(monkeypatch: pytest.MonkeyPatch):
    check_wheel = load("check_wheel", monkeypatch)
    assert check_wheel.find_faults(whole_wheel(check_wheel), 1000) == []


def test_each_missing_file_is_a_fault(monkeypatch: pytest.MonkeyPatch):
    check_wheel = load("check_wheel", monkeypatch)
    whole = whole_wheel(check_wheel)
    for name in whole:
        if not name.endswith("METADATA"):
            rest = {other: size for other, size in whole.items() if other != name}
            assert len(check_wheel.find_faults(rest, 1000)) == 1, name


def test_stray_name_and_sizes_are_faults(monkeypatch: pytest.MonkeyPatch):
    check_wheel = load("check_wheel", monkeypatch)
    sizes = whole_wheel(check_wheel) | {
        "dsp/stage.py": 9,
        "jupyt5/bundled/nano/model.bin": 41_000_000,
    }
    faults = check_wheel.find_faults(sizes, 61_000_000)
    assert [fault.split()[0] for fault in faults] == ["has", "is", "holds"]


def test_missing_wheel_names_the_next_step():
    answer = subprocess.run(
        [sys.executable, SCRIPTS / "check_wheel.py", "no.whl"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 2
    assert "make wheel" in answer.stderr


def test_unknown_check_is_a_usage_error():
    answer = subprocess.run(
        [sys.executable, SCRIPTS / "run_checks.py", "lnit"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 2
    assert "'lnit'" in answer.stderr


def test_checks_go_on_after_a_failure_and_keep_the_closing_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    run_checks = load("run_checks", monkeypatch)
    commands = {
        "one": "print('== 1 failed, 2 passed in 0.1s =='); raise SystemExit(1)",
        "two": "print('== 3 passed in 0.1s ==')",
    }
    checks = tuple(
        run_checks.Check(name, "unit", (sys.executable, "-c", code))
        for name, code in commands.items()
    )
    monkeypatch.setattr(run_checks, "CHECKS", checks)
    assert run_checks.main(["unit"]) == 1
    summary = capfd.readouterr().out.partition("### Summary")[2]
    assert "== 1 failed, 2 passed in 0.1s ==" in summary
    assert "== 3 passed in 0.1s ==" in summary
    assert "checks: 1 passed, 1 failed" in summary


def test_missing_chromium_is_named_and_fails(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    run_checks = load("run_checks", monkeypatch)
    monkeypatch.setenv("PATH", os.devnull)
    passing = run_checks.Check("passing", "unit", (sys.executable, "-c", ""))
    browser = run_checks.Check("browser", "browser", (sys.executable, "-c", "print('ran')"))
    monkeypatch.setattr(run_checks, "CHECKS", (passing, browser))
    monkeypatch.setattr(run_checks, "GROUPS", ("unit", "browser"))
    assert run_checks.main([]) == 1
    printed = capfd.readouterr().out
    assert "checks: 1 passed, 0 failed" in printed
    assert "Debian package `chromium`" in printed


@pytest.mark.parametrize("python", ["", "/no/such/python"])
def test_missing_python_is_named(python: str, tmp_path: Path):
    answer = subprocess.run(
        ["/bin/sh", SCRIPTS / "find_python.sh"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": str(tmp_path), "PYTHON": python},
    )
    assert answer.returncode == 1
    assert "3.11" in answer.stderr


def test_node_is_taken_from_a_package_where_path_has_none_or_an_old_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    setup_env = load("setup_env", monkeypatch)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert setup_env.node_extra() == {"node"}
    for name, version in (("node", "v18.19.0"), ("npm", "10")):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {version}\n")
        (tmp_path / name).chmod(0o755)
    assert setup_env.node_extra() == {"node"}
    (tmp_path / "node").write_text("#!/bin/sh\necho v20.1.0\n")
    assert setup_env.node_extra() == set()


def test_install_stamp_counts_only_for_the_same_inputs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    setup_env = load("setup_env", monkeypatch)
    stamp = tmp_path / "install.json"
    monkeypatch.setattr(setup_env, "INSTALL_STAMP", stamp)
    assert setup_env.installed_extras("k1") is None
    stamp.write_text('{"key": "k1", "extras": ["dev"]}')
    assert setup_env.installed_extras("k1") == {"dev"}
    assert setup_env.installed_extras("k2") is None
    stamp.write_text("{")
    assert setup_env.installed_extras("k1") is None


def test_digest_sees_a_changed_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    setup_env = load("setup_env", monkeypatch)
    monkeypatch.setattr(setup_env, "ROOT", tmp_path)
    source = tmp_path / "a.ts"
    source.write_text("1")
    before = setup_env.digest([source])
    assert setup_env.digest([source, tmp_path / "absent"]) == before
    source.write_text("2")
    assert setup_env.digest([source]) != before


def test_a_long_step_says_that_it_is_at_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    setup_env = load("setup_env", monkeypatch)
    monkeypatch.setattr(setup_env, "SAY_EVERY_S", 0.2)
    sleep = "import time; print('many words'); time.sleep(0.7)"
    setup_env.run([sys.executable, "-c", sleep], "Do this.")
    said = capsys.readouterr().err
    assert "still at work after" in said
    assert "done in" in said
    assert "many words" not in said
    with pytest.raises(setup_env.SetupError, match=r"exit code 3\. Do this"):
        setup_env.run([sys.executable, "-c", "print('oops'); raise SystemExit(3)"], "Do this.")
    assert "oops" in capsys.readouterr().err
