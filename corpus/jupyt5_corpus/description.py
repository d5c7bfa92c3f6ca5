"""What describes a corpus beside its rows: decontamination report, card and, last, manifest."""

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from pathlib import Path

from jupyt5_corpus import card, decontamination
from jupyt5_corpus.manifest import MANIFEST_NAME, render
from jupyt5_corpus.removals import read_removals
from jupyt5_corpus.steps import HELD_OUT_BY

__all__ = ["DESCRIBING_FILES", "describe_corpus"]

DESCRIBING_FILES = frozenset(
    {card.CARD_NAME, decontamination.JSONL_NAME, decontamination.HTML_NAME, MANIFEST_NAME}
)
"""Names of the files that ``describe_corpus`` writes."""


def describe_corpus(
    manifest: Mapping[str, object],
    removed_paths: Iterable[Path],
    write: Callable[[str, bytes], object],
) -> Mapping[str, object]:
    """Write the describing files.

    Args:
        manifest: The manifest, but for ``files``.
        removed_paths: The lists of removals, in the manifest's order.
        write: Takes a file's name and its content. The manifest comes last: a folder with one is
            finished.

    Returns:
        The manifest with ``files``: name and SHA-256 of the others.
    """
    held_out = [
        removal
        for path in removed_paths
        for removal in read_removals(path)
        if removal.step in HELD_OUT_BY
    ]
    contents = {
        card.CARD_NAME: card.render(manifest).encode(),
        decontamination.HTML_NAME: decontamination.render_html(held_out),
        decontamination.JSONL_NAME: decontamination.render_jsonl(held_out),
    }
    files: list[Mapping[str, str]] = []
    for name, content in contents.items():
        write(name, content)
        files.append({"file": name, "sha256": sha256(content).hexdigest()})
    complete = {**manifest, "files": files}
    write(MANIFEST_NAME, render(complete))
    return complete
