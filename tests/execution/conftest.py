"""The sandbox for tests: the real one where this machine has it."""

import pytest

from jupyt5.errors import ExecutionError
from jupyt5.execution.sandbox import Sandbox, choose_sandbox


@pytest.fixture(scope="session")
def sandbox() -> Sandbox:
    try:
        return choose_sandbox("auto")
    except ExecutionError:
        return choose_sandbox("none")
