"""Training or validation: which repositories belong together, and on which side they are.

Repositories form a family when they share a notebook's content or one is a fork of the other.
A family is called by its alphabetically smallest repository of the corpus, and is on the
validation side when sha256(name) mod 100 < 2. Contents under 40 characters (an empty notebook, a
lone import) connect nothing.
"""

import hashlib
from collections.abc import Mapping

__all__ = ["RULE", "Families", "side_of"]

RULE = "validation when sha256(family) mod 100 < 2"
_VALIDATION_PERCENT = 2


class Families:
    """Collects the ties between repositories; ``names`` then gives the family of each."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}
        self._in_corpus: set[str] = set()

    def add(self, repo: str, *, fork_of: str | None) -> None:
        """Take in a repository of the corpus."""
        self._in_corpus.add(repo)
        self._find(repo)
        if fork_of is not None:
            self.join(repo, fork_of)

    def names(self) -> Mapping[str, str]:
        """Return repository → family for every repository that was added."""
        smallest: dict[str, str] = {}
        for repo in sorted(self._in_corpus):
            smallest.setdefault(self._find(repo), repo)
        return {repo: smallest[self._find(repo)] for repo in sorted(self._in_corpus)}

    def join(self, one: str, other: str) -> None:
        """Put two repositories, and with them their families, into one family."""
        self._parents[self._find(one)] = self._find(other)

    def _find(self, repo: str) -> str:
        root = repo
        while (parent := self._parents.setdefault(root, root)) != root:
            root = parent
        while self._parents[repo] != root:
            self._parents[repo], repo = root, self._parents[repo]
        return root


def side_of(family: str) -> str:
    """Return ``validation`` or ``train`` for a family's name."""
    digest = int(hashlib.sha256(family.encode()).hexdigest(), 16)
    return "validation" if digest % 100 < _VALIDATION_PERCENT else "train"
