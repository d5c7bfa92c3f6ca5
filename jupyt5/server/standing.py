"""Where a provider stands, as people are told: could it fill a cell now?"""

from dataclasses import dataclass
from typing import Literal

from jupyt5.server.engine import FillEngine

__all__ = ["Standing", "find_standing"]


@dataclass(frozen=True, slots=True)
class Standing:
    """``idle``: not loaded yet; ``busy``: no turn is free; ``offline``: see ``reason``.

    The last is said of a provider that is not allowed, too.
    """

    state: Literal["idle", "loading", "ready", "busy", "offline"]
    reason: str = ""


def find_standing(engine: FillEngine, uri: str) -> Standing:
    """Tell where a provider stands; nothing is loaded or asked for that."""
    loaded = engine.shelf.state(uri)
    trouble = loaded.reason if loaded.state == "failed" else engine.shelf.find_trouble(uri)
    if loaded.state == "failed" or trouble:
        return Standing("offline", " ".join(trouble.split()))
    if loaded.state == "loading":
        return Standing("loading")
    if not engine.is_free:
        return Standing("busy")
    return Standing("ready" if loaded.state == "ready" else "idle")
