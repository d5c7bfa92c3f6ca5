"""How many repositories and families a finished corpus has, and on which side of the split."""
# pyarrow comes without types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from jupyt5_corpus.shards import iter_row_groups

__all__ = ["count_repositories", "digest_of"]

_COLUMNS = ("repo", "family", "split")


def count_repositories(shard_paths: Iterable[Path]) -> Mapping[str, int]:
    """Count repositories and families with a notebook in the corpus, as the manifest has them.

    Memory: 8 bytes a name, in a set.

    Raises:
        CorpusError: If a shard is missing or damaged.
    """
    names: dict[str, set[bytes]] = {
        "num_repositories": set(),
        "num_families": set(),
        "num_validation_families": set(),
        "num_validation_repositories": set(),
    }
    for path in shard_paths:
        for rows in iter_row_groups(path, _COLUMNS):
            for row in rows.group_by(list(_COLUMNS)).aggregate([]).to_pylist():
                repo, family = digest_of(row["repo"]), digest_of(row["family"])
                names["num_repositories"].add(repo)
                names["num_families"].add(family)
                if row["split"] == "validation":
                    names["num_validation_repositories"].add(repo)
                    names["num_validation_families"].add(family)
    return {name: len(digests) for name, digests in names.items()}


def digest_of(repo: str) -> bytes:
    """Return what stands for a repository where there are many; letter case does not matter."""
    return hashlib.blake2b(repo.lower().encode(), digest_size=8).digest()
