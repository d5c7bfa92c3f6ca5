"""What the server and the process of a model say to each other, pickled, over one socket."""

from dataclasses import dataclass

from jupyt5.errors import Jupyt5Error
from jupyt5.providers import Chunk, FillRequest, Preview, Sampling

__all__ = ["Answer", "Ask", "Cancel", "Look", "Order", "Result"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Generate; answered by chunks, and None at the end."""

    number: int
    request: FillRequest
    n: int
    sampling: Sampling
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Tell what the model would be given; answered by a preview."""

    number: int
    request: FillRequest
    sampling: Sampling


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop within one decoding step; not answered."""

    number: int


Order = Ask | Look | Cancel
Result = Chunk | Preview | Jupyt5Error | None
"""What comes back: a piece, an error that ends the answer, or None that ends it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A result of the order of that number; 0 is the load, ended by None."""

    number: int
    result: Result
