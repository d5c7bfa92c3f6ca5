"""How a kernel is started: its command line, sockets and environment."""

import sys
from dataclasses import dataclass
from pathlib import Path

from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager

from jupyt5.execution.sandbox import Sandbox
from jupyt5.execution.workspace import Workspace

__all__ = ["Launch"]


@dataclass(frozen=True, slots=True)
class Launch:
    """Where and how a kernel starts.

    Attributes:
        workspace: Folders of the run.
        sandbox: Wall around the kernel.
        folder: Where in the work folder it starts.
        hash_seed: Its PYTHONHASHSEED.
    """

    workspace: Workspace
    sandbox: Sandbox
    folder: str = "."
    hash_seed: int = 0

    @property
    def cwd(self) -> str:
        """The folder to start the process in, as seen from outside the wall."""
        return str(self.workspace.work_path / self.folder)

    def make_manager(self, attempt: int) -> AsyncKernelManager:
        """Return a manager for a kernel on Unix sockets; each attempt has sockets of its own."""
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        argv += ["--HistoryManager.enabled=False"]
        spec = KernelSpec(
            argv=self.sandbox.wrap(argv, self.workspace, self.folder),
            display_name="JuPyT5 sample",
            language="python",
            interrupt_mode="message",
        )
        socket_path = self.workspace.socket_path
        return AsyncKernelManager(
            kernel_name="jupyt5",
            kernel_spec_manager=_OneSpec(spec),
            transport="ipc",
            ip=str(socket_path / f"k{attempt}"),
            connection_file=str(socket_path / f"kernel{attempt}.json"),
        )

    def make_environment(self) -> dict[str, str]:
        """Return the kernel's whole environment: nothing of the user's own is passed on."""
        home = str(self.sandbox.home_path(self.workspace))
        environment = {
            "HOME": home,
            "IPYTHONDIR": f"{home}/.ipython",
            "JUPYTER_RUNTIME_DIR": f"{home}/.runtime",
            "LANG": "C.UTF-8",
            "MPLBACKEND": "module://matplotlib_inline.backend_inline",
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": str(self.hash_seed),
            "PYTHONNOUSERSITE": "1",
            "TMPDIR": home,
            "TZ": "UTC",
        }
        for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR"):
            environment[f"{name}_NUM_THREADS"] = "1"
        return environment


class _OneSpec(KernelSpecManager):
    """Knows one kernel: this interpreter, inside this run's wall."""

    def __init__(self, spec: KernelSpec) -> None:
        super().__init__()
        self._spec = spec

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """Return the one kernel, whatever it is called."""
        del kernel_name
        return self._spec
