"""Environments that execute notebooks: pinned packages, and how to make them on a machine."""

from jupyt5_dsp.environments.recipes import (
    ENVIRONMENTS,
    Environment,
    count_packages,
    describe_setup,
    find_environment,
    read_lock,
    write_lock,
)

__all__ = [
    "ENVIRONMENTS",
    "Environment",
    "count_packages",
    "describe_setup",
    "find_environment",
    "read_lock",
    "write_lock",
]
