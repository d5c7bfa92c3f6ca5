# make lab    JupyterLab with the assistant on the demo notebooks; ARGS="--no-browser --port=8890"
# make test   every check there is; CHECKS="lint unit" picks some
# make wheel  the wheel with the interface in it, checked
#
# Each does its own set-up in .venv, with any Python >= 3.11 on PATH or the one named by PYTHON=.
# A second run sets nothing up and needs no network.

.DEFAULT_GOAL := help
.PHONY: help lab test wheel check-install setup setup-dev constraints clean

# The install leaves bytecode out, so the first import has to be allowed to write it.
unexport PYTHONDONTWRITEBYTECODE

ARGS ?=
CHECKS ?=
PYTHON ?=
BIN := .venv/bin
SETUP = python=$$(PYTHON="$(PYTHON)" sh scripts/find_python.sh) && "$$python" scripts/setup_env.py
ON_PATH = PATH="$(CURDIR)/$(BIN):$$PATH"

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

# JupyterLab refuses to start as root unless told; in a container there is often no one else.
lab: setup
	@$(ON_PATH) $(BIN)/jupyt5 lab $(if $(filter 0,$(shell id -u)),--allow-root) $(ARGS)

test: setup-dev
	@$(BIN)/python scripts/run_checks.py $(CHECKS)

# An interface built earlier would be reused, and one that is missing left out without a word.
wheel: setup-dev
	@rm -rf jupyt5/labextension dist
	@$(ON_PATH) HATCH_BUILD_HOOKS_ENABLE=true PIP_CONSTRAINT="$(CURDIR)/constraints.txt" \
		$(BIN)/python -m build --wheel
	@$(BIN)/python scripts/check_wheel.py dist/*.whl

check-install: wheel
	@$(BIN)/python scripts/check_install.py dist/*.whl

setup:
	@$(SETUP) --extras demo

setup-dev:
	@$(SETUP) --extras all,demo,dev

constraints: setup-dev
	@$(BIN)/python scripts/write_constraints.py

clean:
	rm -rf .venv dist build jupyt5/labextension labextension/lib labextension/node_modules
