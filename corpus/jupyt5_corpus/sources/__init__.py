"""Where notebooks come from.

Archives (``.tar``, ``.tar.zst``), folders of them, folders of notebooks or clones, bare git
repositories, and Parquet files of raw notebooks (columns ``repo``, ``path``, ``content``, and
``commit`` and ``licence`` where known).

Sources are cut into units, the pieces that workers take and that a restarted build skips when
done. Members of archives and files of folders are called ``<owner>/<repo>/<path>`` or, for an
older version, ``<owner>/<repo>@<commit>/<path>``; a shorter name belongs to a repository called
like its archive or folder. Files of a clone belong to the repository it was cloned from. Nothing
is unpacked to disk, no link is followed out of a source, and what cannot be read becomes one
``RawFile`` with a reason.
"""

from jupyt5_corpus.sources.records import (
    MAX_NOTEBOOK_BYTES,
    LicenceFile,
    Location,
    RawFile,
    locate,
)
from jupyt5_corpus.sources.units import Unit, find_units, iter_files

__all__ = [
    "MAX_NOTEBOOK_BYTES",
    "LicenceFile",
    "Location",
    "RawFile",
    "Unit",
    "find_units",
    "iter_files",
    "locate",
]
