"""The options that keep JupyterLab off the internet name things that exist."""

import json
import os
from pathlib import Path

from traitlets.utils.importstring import import_item

from jupyt5.server.offline import LAB_OFFLINE_ARGS, offline_environment


def test_arguments_are_options_of_jupyterlab():
    from jupyterlab.labapp import LabApp

    for argument in LAB_OFFLINE_ARGS:
        name, value = argument.removeprefix("--LabApp.").split("=")
        trait = LabApp.class_traits()[name]
        if name == "check_for_updates_class":
            assert import_item(value)
        else:
            assert trait.from_string(value) in (None, "readonly")


def test_environment_keeps_what_was_there():
    environment = offline_environment({"JUPYTER_CONFIG_PATH": "/etc/mine", "HOME": "/home/ana"})
    mine, ours = environment["JUPYTER_CONFIG_PATH"].split(os.pathsep)
    assert (mine, environment["HOME"]) == ("/etc/mine", "/home/ana")
    path = Path(ours) / "labconfig" / "default_setting_overrides.json"
    overrides = json.loads(path.read_text())
    assert overrides["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"


def test_environment_without_a_path():
    assert os.pathsep not in offline_environment({})["JUPYTER_CONFIG_PATH"]
