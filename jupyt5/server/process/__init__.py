"""Models in processes of their own: what one of them breaks, the Jupyter server survives."""

from jupyt5.server.process.provider import ProcessProvider

__all__ = ["ProcessProvider"]
