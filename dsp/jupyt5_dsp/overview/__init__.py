"""Several runs side by side: providers by suites, in tables, charts and files."""

from jupyt5_dsp.overview.write import write_overview

__all__ = ["write_overview"]
