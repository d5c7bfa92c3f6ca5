"""Write constraints.txt from what `.venv` has installed; `make constraints` calls it."""

from __future__ import annotations

import sys
from importlib.metadata import distributions
from pathlib import Path

TARGET = Path(__file__).resolve().parents[1] / "constraints.txt"
SKIP = {"jupyt5", "pip", "setuptools"}
HEADER = """\
# Every package that `.[all,dev,node]` installs, and those of `collaborate`, `curate` and `gguf`
# where they were installed too, at the version it was tested with. Write it anew with
# `make constraints`. torch is pinned without a local build tag, so a CPU or a CUDA build will do;
# what a CUDA build brings with it is not listed here.
# soupsieve stays at 2: from 3.0.2 on it needs Python 3.11.5, and Debian 12 has 3.11.2.
"""


def main() -> int:
    """Write the file, sorted, local build tags left out."""
    versions = {dist.metadata["Name"]: dist.version.split("+")[0] for dist in distributions()}
    lines = [f"{name}=={versions[name]}" for name in sorted(versions, key=str.lower)]
    kept = [line for line in lines if line.split("==")[0].lower() not in SKIP]
    TARGET.write_text(HEADER + "\n".join(kept) + "\n", encoding="utf-8")
    print(f"{TARGET.name}: {len(kept)} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
