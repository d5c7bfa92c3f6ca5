"""Tiny sets in the suites' own formats: all that BioCoder's files can hold, made here."""

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ADD = "def add(a, b):\n    return a + b\n"
MEMBER = "def add(self, a, b):\n    return self.twice(a) - a + b\n"

PLAIN_CONTEXT = """import os
def helper():
    return 0
<<insert solution here>>
def main():
    print("sum", add(<|int|>, <|int;range=-9,9|>) + helper(), <|bool|>, '<|string;length=3|>' != "")
if __name__ == "__main__":
    main()
"""
MEMBER_CONTEXT = """import os
class Adder:
    def twice(self, a):
        return 2 * a
    <<insert solution here>>
if __name__ == "__main__":
    print(Adder().add(2, 3))
"""


def make_row(name: str, golden: str, context: str, **more: object) -> dict[str, object]:
    """Return a row of ``python_public.jsonl``."""
    fields = {"id": name, "prompt": "Write add.", "golden": golden, "context": context}
    return {"language": "python", **fields, **more}


def write_rows(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_biocoder(folder: Path) -> Path:
    """Write every file that the suite ``biocoder`` can read."""
    root = folder / "biocoder"
    rows = [
        make_row("plain", ADD, PLAIN_CONTEXT),
        make_row("member", MEMBER, MEMBER_CONTEXT),
    ]
    write_rows(root / "python_public.jsonl", rows)
    write_rows(root / "functions.jsonl", [{"id": "a.py:add", "golden": ADD}])
    for name in ("python_similar.json", "python_hidden_v1.json"):
        (root / name).write_text(json.dumps({"golden": {"0": ADD}}))
    java = {"content": {"0": "int add(int a) { return a; }"}, "signature": {"0": "int add(int a)"}}
    for name in ("java_public.json", "java_similar.json", "java_hidden.json"):
        (root / name).write_text(json.dumps(java))
    return root


def write_rosalind(folder: Path) -> Path:
    """Write what the suite ``rosalind`` reads: problems and the archive of pairs."""
    root = folder / "rosalind"
    golden = "def main(file):\n    print(*sorted(int(one) for one in open(file)), sep='\\n')\n"
    half = "def main(file):\n    print(sum(int(one) for one in open(file)) / 7)\n"
    rows = [
        {"id": "grph", "golden": golden, "title": "Order", "track": "t"},
        {"id": "iprb", "golden": half, "title": "Share", "track": "t"},
    ]
    write_rows(root / "rosalind.jsonl", rows)
    pairs = {
        "grph.in": "3\n1\n2\n",
        "grph.out": "3\n2\n1\n",
        "iprb.in": "1\n1\n",
        "iprb.out": "0.286\n",
    }
    write_pairs(root / "rosalind_testcases.tar.xz", pairs)
    return root


def write_pairs(path: Path, files: Mapping[str, str]) -> Path:
    with tarfile.open(path, "w:xz") as archive:
        for name, text in files.items():
            data = text.encode()
            member = tarfile.TarInfo(f"testcases/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path
