"""Assert that a built wheel is whole: four packages, typed markers, interface, server, model, size.

A wheel without the interface installs without any error, so this is where it is caught.

    python scripts/check_wheel.py dist/jupyt5-0.1.0-py3-none-any.whl
"""

from __future__ import annotations

import argparse
import sys
import zipfile
from fnmatch import fnmatch
from pathlib import Path

MAX_WHEEL_BYTES = 60_000_000
MAX_MODEL_BYTES = 40_000_000
PACKAGES = ("jupyt5", "jupyt5_corpus", "jupyt5_dsp", "jupyt5_training")
UI = "*.data/data/share/jupyter/labextensions/jupyt5-labextension"
SERVER_CONFIG = "*.data/data/etc/jupyter/jupyter_server_config.d"
MODEL = "jupyt5/bundled/nano"
MODEL_FILES = (
    "README.md",
    "config.json",
    "jupyt5.json",
    "model.bin",
    "shared_vocabulary.json",
    "tokenizer.json",
)


def main(argv: list[str] | None = None) -> int:
    """Check one wheel, print its sizes; 1 with every fault named if it is not whole."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("wheel", type=Path)
    wheel_path: Path = parser.parse_args(argv).wheel
    if not wheel_path.is_file():
        print(f"{wheel_path} is not a file. Build it with `make wheel`.", file=sys.stderr)
        return 2
    with zipfile.ZipFile(wheel_path) as wheel:
        sizes = {info.filename: info.compress_size for info in wheel.infolist()}
    wheel_bytes = wheel_path.stat().st_size
    faults = find_faults(sizes, wheel_bytes)
    for fault in faults:
        print(f"{wheel_path.name}: {fault}", file=sys.stderr)
    model_bytes = sum(size for name, size in sizes.items() if name.startswith(f"{MODEL}/"))
    ui_bytes = sum(size for name, size in sizes.items() if fnmatch(name, f"{UI}/*"))
    print(
        f"{wheel_path.name}: {wheel_bytes / 1e6:.2f} MB in {len(sizes)} files, of which "
        f"bundled model {model_bytes / 1e6:.2f} MB, interface {ui_bytes / 1e6:.2f} MB"
    )
    return int(bool(faults))


def find_faults(sizes: dict[str, int], wheel_bytes: int) -> list[str]:
    """List what is missing, stray or too big in a wheel of these files (name to packed size)."""
    patterns = [f"{package}/{file}" for package in PACKAGES for file in ("__init__.py", "py.typed")]
    patterns += [f"{UI}/package.json", f"{UI}/install.json", f"{UI}/static/remoteEntry.*.js"]
    patterns += [f"{UI}/static/style.js", f"{UI}/schemas/*", f"{SERVER_CONFIG}/*.json"]
    patterns += [f"{MODEL}/{file}" for file in MODEL_FILES]
    patterns += [f"jupyt5/demo/{name}.ipynb" for name in ("data-analysis", "demo", "homework")]
    faults = [
        f"has no {pattern}"
        for pattern in patterns
        if not any(fnmatch(name, pattern) for name in sizes)
    ]
    top_level = {name.split("/", maxsplit=1)[0] for name in sizes}
    stray = sorted(
        name for name in top_level - set(PACKAGES) if not name.endswith((".data", ".dist-info"))
    )
    faults += [f"has a stray top-level name {name!r}" for name in stray]
    if wheel_bytes > MAX_WHEEL_BYTES:
        faults.append(f"is {wheel_bytes / 1e6:.1f} MB, over {MAX_WHEEL_BYTES / 1e6:.0f} MB")
    model_bytes = sum(size for name, size in sizes.items() if name.startswith(f"{MODEL}/"))
    if model_bytes > MAX_MODEL_BYTES:
        faults.append(f"holds a model of {model_bytes / 1e6:.1f} MB, over the 40 MB allowed")
    return faults


if __name__ == "__main__":
    sys.exit(main())
