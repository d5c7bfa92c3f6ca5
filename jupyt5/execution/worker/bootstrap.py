"""Entry of the worker: loads this folder as a package under a name that no notebook imports."""

import importlib.util
import os
import sys

_NAME = "_jupyt5_worker"


def main():
    """Load the package and serve one job."""
    folder = os.path.dirname(os.path.abspath(__file__))
    # The script's own folder must not answer a notebook's imports; '' is the current folder.
    sys.path[:] = [""] + [entry for entry in sys.path if os.path.abspath(entry or ".") != folder]
    spec = importlib.util.spec_from_file_location(
        _NAME, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    package = importlib.util.module_from_spec(spec)
    sys.modules[_NAME] = package
    spec.loader.exec_module(package)
    server = importlib.import_module(_NAME + ".server")
    sys.exit(server.serve())


if __name__ == "__main__":
    main()
