"""Drawing notebooks, and of each some cells. The draw depends on contents and seed alone."""
# pyarrow comes without types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

import hashlib
import heapq
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from jupyt5.console import progress
from jupyt5_corpus.map.settings import MapSettings
from jupyt5_corpus.shards import iter_row_groups, open_shard, shard_paths

__all__ = ["SampledNotebook", "draw_notebooks", "iter_sampled", "title_of"]

_CELL_CHARS = 1500
_TITLE_CHARS = 120
_TITLE_CELLS = 10
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$", re.MULTILINE)
_PICTURE = re.compile(r"!\[[^\]\[]*\]\([^)(]*\)")
_INLINE_MARKUP = re.compile(r"\[([^\]\[]*)\]\([^)(]*\)|<[^<>]*>|[*`]+")
_READ = ("repo", "path", "markdown_fraction", "content_hash", "cells")


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledNotebook:
    """A notebook of the map; its title is its first heading, else its file's name."""

    repo: str
    path: str
    title: str
    markdown_fraction: float


def draw_notebooks(
    folder: Path, manifest: Mapping[str, object], settings: MapSettings
) -> Mapping[int, frozenset[int]]:
    """Draw notebooks: those whose content hashes are smallest when mixed with the seed.

    Returns:
        Shard index → indices of its rows that were drawn.
    """
    drawn = heapq.nsmallest(settings.num_notebooks, _iter_keys(folder, manifest, settings.seed))
    rows: dict[int, set[int]] = {}
    for _, shard_idx, row_idx in drawn:
        rows.setdefault(shard_idx, set()).add(row_idx)
    return {shard_idx: frozenset(rows[shard_idx]) for shard_idx in sorted(rows)}


def iter_sampled(
    folder: Path,
    manifest: Mapping[str, object],
    drawn: Mapping[int, frozenset[int]],
    settings: MapSettings,
) -> Iterator[tuple[SampledNotebook, list[str]]]:
    """Read the drawn notebooks, in the order of the shards.

    Yields:
        A notebook, and the sources of its drawn cells, cut to 1,500 characters each.
    """
    shards = shard_paths(folder, manifest)
    for shard_idx in progress(drawn, desc="Reading", total=len(drawn), unit="shard"):
        with open_shard(shards[shard_idx]) as table_file:
            start = 0
            for group_idx in range(table_file.num_row_groups):
                num_rows = table_file.metadata.row_group(group_idx).num_rows
                places = [idx for idx in range(num_rows) if start + idx in drawn[shard_idx]]
                start += num_rows
                if places:
                    group = table_file.read_row_group(group_idx, columns=list(_READ))
                    for row in group.take(places).to_pylist():
                        yield _sample(row, settings)


def title_of(path: str, cells: Sequence[Mapping[str, str]]) -> str:
    """Return a notebook's first heading that says something, else its file's name.

    Pictures, links, tags and emphasis are left out; the result is text, not markup, and may be
    anything.
    """
    for cell in cells[:_TITLE_CELLS]:
        if cell["kind"] != "markdown":
            continue
        for match in _HEADING.finditer(cell["source"][:_CELL_CHARS]):
            title = " ".join(_INLINE_MARKUP.sub(r"\1", _PICTURE.sub("", match[1])).split())
            if _is_telling(title):
                return _cut(title)
    return _cut(path.rpartition("/")[2].removesuffix(".ipynb"))


def _iter_keys(
    folder: Path, manifest: Mapping[str, object], seed: int
) -> Iterator[tuple[bytes, int, int]]:
    salt = str(seed).encode()
    shards = shard_paths(folder, manifest)
    paths = progress(shards, desc="Drawing notebooks", total=len(shards), unit="shard")
    for shard_idx, path in enumerate(paths):
        row_idx = 0
        for rows in iter_row_groups(path, ["content_hash"]):
            for content in rows.column("content_hash").to_pylist():
                digest = hashlib.blake2b(content.encode(), digest_size=16, key=salt).digest()
                yield digest, shard_idx, row_idx
                row_idx += 1


def _sample(row: Mapping[str, object], settings: MapSettings) -> tuple[SampledNotebook, list[str]]:
    cells = cast("Sequence[Mapping[str, str]]", row["cells"])
    texts = [cell["source"] for cell in cells if not cell["source"].isspace()]
    if len(texts) > settings.num_cells:
        # A seed of text is hashed with SHA-512, not with hash().
        draw = random.Random(f"{settings.seed} {row['content_hash']}")
        texts = [texts[idx] for idx in sorted(draw.sample(range(len(texts)), settings.num_cells))]
    notebook = SampledNotebook(
        repo=str(row["repo"]),
        path=str(row["path"]),
        title=title_of(str(row["path"]), cells),
        markdown_fraction=cast("float", row["markdown_fraction"]),
    )
    return notebook, [text[:_CELL_CHARS] for text in texts]


def _is_telling(title: str) -> bool:
    """Tell a title from signs alone and from the notice that whole galleries begin with."""
    return any(map(str.isalnum, title)) and not title.lower().startswith("copyright")


def _cut(text: str) -> str:
    return text if len(text) <= _TITLE_CHARS else f"{text[: _TITLE_CHARS - 1]}…"
