"""Reads the hostile completions, which are data (``hostile/README.md``)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "hostile"
PROBLEMS = FOLDER / "problems"
_HEADER = re.compile(r"^# %% ([ABCH]) (\w+): (.*)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hostile:
    """One completion: ``kind`` is A, B, C, or H for harm beside a right answer."""

    technique: str
    kind: str
    task_id: str
    purpose: str
    completion: str


def read_hostile() -> list[Hostile]:
    return [found for path in sorted(FOLDER.glob("*.txt")) for found in _iter_file(path)]


def _iter_file(path: Path) -> Iterator[Hostile]:
    header, lines = None, list[str]()
    for line in [*path.read_text(encoding="utf-8").splitlines(), "# %% A end: end"]:
        match = _HEADER.match(line)
        if match is None:
            lines.append(line)
            continue
        if header is not None:
            kind, task_id, purpose = header
            yield Hostile(
                technique=path.stem,
                kind=kind,
                task_id=task_id,
                purpose=purpose,
                completion="\n".join(lines) + "\n",
            )
        header, lines = match.groups(), []
