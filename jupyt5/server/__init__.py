"""The assistant's server side: a jupyter-server extension that fills cells.

Importing this package is cheap, since every Jupyter server in the environment does it at start:
the application is imported when the extension is linked, a model when a cell is first filled.
"""

__all__ = ["_jupyter_server_extension_points"]


def _jupyter_server_extension_points() -> list[dict[str, object]]:
    from jupyt5.server.app import JuPyT5App

    return [{"module": "jupyt5.server", "app": JuPyT5App}]
