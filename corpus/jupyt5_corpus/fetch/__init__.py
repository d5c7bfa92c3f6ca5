"""Getting notebooks of public git repositories: ``jupyt5-corpus list`` and ``fetch``."""

from jupyt5_corpus.fetch.client import FetchLimits
from jupyt5_corpus.fetch.run import FetchOptions, fetch_list
from jupyt5_corpus.fetch.targets import Target, read_targets

__all__ = ["FetchLimits", "FetchOptions", "Target", "fetch_list", "read_targets"]
