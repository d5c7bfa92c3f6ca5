"""Fetch the repositories of the shared corpus over loopback git, with bad servers among them.

    python tests/benchmarks/bench_fetch.py [--repositories 50] [--workers 2]

Each repository becomes a bare one: its notebooks and licence, a picture of 1 MB that must not be
fetched, and a history of two commits. Prints JSON: rates of `git clone` of everything, one after
the other, and of `fetch`, and whether every notebook came back with the same bytes.
"""

import argparse
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from jupyt5_corpus.fetch.client import FetchLimits
from jupyt5_corpus.fetch.run import FetchOptions, fetch_list
from jupyt5_corpus.sources import LicenceFile, find_units, iter_files

ROOT = Path(__file__).parents[2]
CORPUS = (ROOT / ".." / "shared" / "data" / "corpus").resolve()


def load_servers():
    """Load the tests' servers: git's daemon is started here, the bad one is theirs."""
    path = ROOT / "tests" / "corpus" / "fetch" / "conftest.py"
    spec = importlib.util.spec_from_file_location("fetch_servers", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read_repositories(corpus: Path, count: int) -> dict[str, dict[str, bytes]]:
    """Take the first repositories of the shared corpus, by name."""
    found: dict[str, dict[str, bytes]] = {}
    for unit in find_units([corpus]):
        for file in iter_files(unit):
            if isinstance(file, LicenceFile):
                found.setdefault(file.repo, {})[file.name] = file.text.encode()
            elif file.data is not None and file.location.old_commit is None:
                found.setdefault(file.location.repo, {})[file.location.path] = file.data
    return {name: found[name] for name in sorted(found)[:count]}


def start_daemon(folder: Path) -> tuple["subprocess.Popen[bytes]", int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ("--reuseaddr", "--export-all", "--listen=127.0.0.1", f"--port={port}")
    daemon = subprocess.Popen(
        ["git", "daemon", *options, f"--base-path={folder}", str(folder)], start_new_session=True
    )
    time.sleep(1)
    return daemon, port


def clone_all(urls: list[str], folder: Path) -> float:
    """Clone as one would by hand: everything, one after the other."""
    start_s = time.monotonic()
    for number, url in enumerate(urls):
        subprocess.run(["git", "clone", "-q", "--bare", url, str(folder / str(number))], check=True)
    return time.monotonic() - start_s


def compare(out: Path, repositories: dict[str, dict[str, bytes]]) -> int:
    """Count the notebooks that came back with other bytes, or not at all."""
    fetched = {
        (file.location.repo, file.location.path): file.data
        for unit in find_units([out])
        for file in iter_files(unit)
        if not isinstance(file, LicenceFile)
    }
    wanted = {
        (name, path): data
        for name, files in repositories.items()
        for path, data in files.items()
        if path.endswith(".ipynb")
    }
    return sum(fetched.get(place) != data for place, data in wanted.items())


def serve(maker: Any, repositories: dict[str, dict[str, bytes]]) -> list[str]:
    """Make the bare repositories; return their addresses."""
    urls: list[str] = []
    for repo, files in repositories.items():
        urls.append(maker.make(repo, {"old.bin": os.urandom(1 << 20)}))
        maker.commit(repo, files | {"picture.png": os.urandom(1 << 20)})
    return urls


def fetch(folder: Path, name: str, urls: list[str], workers: int) -> dict[str, object]:
    (folder / f"{name}.txt").write_text("\n".join(urls))
    limits = FetchLimits(timeout_s=60)
    options = FetchOptions(
        num_workers=workers, per_host=workers, delay_s=0.0, num_retries=0, limits=limits
    )
    start_s = time.monotonic()
    counts = fetch_list(folder / f"{name}.txt", folder / name, options)
    wall_s = time.monotonic() - start_s
    return {"wall_s": round(wall_s, 2), "addresses": len(urls)} | dict(counts)


def measure(
    folder: Path, port: int, repositories: dict[str, dict[str, bytes]], workers: int
) -> dict[str, object]:
    servers = load_servers()
    bad_server = servers.BadServer(folder / "served")
    threading.Thread(target=bad_server.serve_forever, daemon=True).start()
    urls = serve(servers.Repositories(folder / "served", port), repositories)
    bad = [f"{bad_server.url}/{kind}/a/{kind}" for kind in ("404", "drop", "stall", "500")]
    bad.append(f"git://127.0.0.1:{port}/no/such.git")
    try:
        return {
            "workers": workers,
            "git_clone_one_after_the_other_s": round(clone_all(urls, folder / "clones"), 2),
            "fetch": fetch(folder, "good", urls, workers),
            "fetch_with_bad_servers": fetch(folder, "mixed", [*bad, *urls], workers),
            "notebooks_that_differ": compare(folder / "mixed", repositories),
        }
    finally:
        bad_server.released.set()
        bad_server.shutdown()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repositories", type=int, default=50)
    parser.add_argument("--corpus", type=Path, default=CORPUS)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    repositories = read_repositories(options.corpus, options.repositories)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for each in ("served", "clones"):
            (folder / each).mkdir()
        daemon, port = start_daemon(folder / "served")
        try:
            report = measure(folder, port, repositories, options.workers)
        finally:
            os.killpg(daemon.pid, signal.SIGKILL)
            daemon.wait()
    sys.stdout.write(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
