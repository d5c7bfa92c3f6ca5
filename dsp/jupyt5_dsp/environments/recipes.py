"""What ``dsp-eval env`` knows: a lock file for each environment, and the commands that use it.

A lock file (``NAME.txt``) pins every package, with what it needs in turn, by version and SHA-256
for all platforms; it is made from the short list in ``NAME.in``, whose head has the command.
"""

import re
import shlex
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from jupyt5.errors import UsageError
from jupyt5.files import write_atomic

__all__ = [
    "ENVIRONMENTS",
    "Environment",
    "count_packages",
    "describe_setup",
    "find_environment",
    "read_lock",
    "write_lock",
]


@dataclass(frozen=True, slots=True)
class Environment:
    """Packages of one time for one Python.

    Attributes:
        name: For ``--name``; also the name of its lock file.
        python: Version of Python that it needs, without the last part.
        about: One phrase for people.
    """

    name: str
    python: str
    about: str


ENVIRONMENTS = (
    Environment("anaconda-2021", "3.9", "libraries of Anaconda 2021.05, the paper's time"),
    Environment("modern", "3.11", "libraries of 2026, as in problems.jsonl's passes_modern"),
)

_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==", re.MULTILINE)


def find_environment(name: str) -> Environment:
    """Return the environment called ``name``.

    Raises:
        UsageError: If there is none; names those that there are.
    """
    for environment in ENVIRONMENTS:
        if environment.name == name:
            return environment
    names = ", ".join(environment.name for environment in ENVIRONMENTS)
    message = f"--name {name} is unknown. Choose one of: {names}."
    raise UsageError(message)


def read_lock(environment: Environment) -> str:
    """Return the text of the lock file that ships with the package."""
    file = resources.files("jupyt5_dsp.environments").joinpath(f"{environment.name}.txt")
    return file.read_text(encoding="utf-8")


def count_packages(lock: str) -> int:
    """Count the different packages that a lock file names, on whatever platform."""
    return len(set(_PIN.findall(lock)))


def write_lock(environment: Environment, out_path: Path) -> None:
    """Write the lock file to ``out_path``; what is there already stays unless it is the same.

    Raises:
        UsageError: If ``out_path`` is something else.
        OSError: If it cannot be written.
    """
    lock = read_lock(environment)
    if out_path.exists() and not (out_path.is_file() and out_path.read_bytes() == lock.encode()):
        message = f"{out_path} exists already and is something else. Give another file with --out."
        raise UsageError(message)
    write_atomic(out_path, lock)


def describe_setup(environment: Environment, lock_path: Path) -> str:
    """Say how to make the environment from its lock file, in commands for a POSIX shell."""
    folder = f"dsp-{environment.name}"
    python, lock = environment.python, shlex.quote(str(lock_path))
    install = f"-m pip install --require-hashes -r {lock}"
    return f"""\
{lock_path}: {count_packages(lock_path.read_text(encoding="utf-8"))} packages for Python {python} \
({environment.about})

With uv, which brings Python {python} along if it is not there:
  uv venv --python {python} {folder}
  uv pip install --python {folder} --require-hashes -r {lock}

With conda:
  conda create --yes --prefix ./{folder} python={python} pip
  {folder}/bin/python {install}

With a Python {python} that is on PATH:
  python{python} -m venv {folder}
  {folder}/bin/python {install}

In a container, from a checkout of this repository; it has both environments in /opt:
  docker build -f dsp/Containerfile -t dsp-eval .

Then let it execute the notebooks:
  dsp-eval run --python {folder}/bin/python --problems PROBLEMS --samples gold --out RUN
"""
