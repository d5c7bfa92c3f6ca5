"""Gets a suite's data files from where they are published, and checks every byte of them.

The package ships their digests only: the files have licences and homes of their own.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

from jupyt5.errors import ProblemSetError, UsageError
from jupyt5.files import sha256_file, write_atomic

__all__ = ["DATA_SETS", "FILES_MIRROR", "DataFile", "DataSet", "FetchedFiles", "fetch_files"]

FILES_MIRROR = "https://raw.githubusercontent.com"

_TIMEOUT_S = 60.0
_MORE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One published file.

    Attributes:
        name: What it is called in the output folder.
        source: Path behind the mirror's address: owner, repository, commit, path.
        sha256: Of its content.
        num_bytes: Its size.
    """

    name: str
    source: str
    sha256: str
    num_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """The files of one suite, under one licence.

    Attributes:
        licence: In words, for people.
        home: Where to read more.
        files: All that is fetched.
    """

    licence: str
    home: str
    files: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedFiles:
    """What is there now; ``kept`` are files that were there before."""

    name: str
    licence: str
    home: str
    fetched: tuple[str, ...]
    kept: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Whether all is there: it is, or the fetch raised."""
        return True

    def to_record(self) -> dict[str, object]:
        """Return all of it as plain data."""
        return asdict(self)

    def describe(self, out_path: Path) -> str:
        """Return it in words."""
        lines = [f"{self.name}: licence {self.licence}; {self.home}"]
        lines += [f"fetched {out_path / name}" for name in self.fetched]
        lines += [f"was there {out_path / name}" for name in self.kept]
        return "\n".join(lines) + "\n"


_BIOCODER = "gersteinlab/BioCoder/4f597e098198cf10574d10e59c975d1c15d82370/datasets"
_MEDAGENTGYM = "wshi83/MedAgentGym/e1e639ebd47eb19a77882904ebb9e08af7ac3246/data/biocoder"

DATA_SETS: Mapping[str, DataSet] = {
    "humaneval": DataSet(
        licence="MIT",
        home="https://github.com/openai/human-eval",
        files=(
            DataFile(
                name="HumanEval.jsonl.gz",
                source="openai/human-eval/6d43fb980f9fee3c892a914eda09951f772ad10d/data/HumanEval.jsonl.gz",
                sha256="b796127e635a67f93fb35c04f4cb03cf06f38c8072ee7cee8833d7bee06979ef",
                num_bytes=44_877,
            ),
        ),
    ),
    "mbpp": DataSet(
        licence="CC BY 4.0",
        home="https://github.com/google-research/google-research/tree/master/mbpp",
        files=(
            DataFile(
                name="mbpp.jsonl",
                source="google-research/google-research/2251e8c67a7fe7d6348714967ee101080b28e956/mbpp/mbpp.jsonl",
                sha256="ccf64ceae9c5403bf50a044cb6d505bfd2a2963ee58338ba268fd65beab92a9f",
                num_bytes=563_743,
            ),
        ),
    ),
    "biocoder": DataSet(
        licence=(
            "none stated by its authors, the functions come from projects with their own licences: "
            "for research (its Python test tasks and Java sets; Rosalind's programs have no ids)"
        ),
        home="https://github.com/gersteinlab/BioCoder",
        files=(
            DataFile(
                name="test_tasks.jsonl",
                source=f"{_MEDAGENTGYM}/test_tasks.jsonl",
                sha256="eaf269ab655ddfdf593cf238991a74b7d5c2474c397c89465ba3dfe6e210cd00",
                num_bytes=1_037_475,
            ),
            DataFile(
                name="java_public.json",
                source=f"{_BIOCODER}/java_public.json",
                sha256="510cdc6c68ef086f18705e8a662892f09e111a1283c73631c8715a394608bc6c",
                num_bytes=102_566,
            ),
            DataFile(
                name="java_similar.json",
                source=f"{_BIOCODER}/java_similar.json",
                sha256="e6e2d67e02bf5586ce98557f93d649036b4b915f0714f06637d77759237bdc2d",
                num_bytes=154_518,
            ),
        ),
    ),
}


def fetch_files(name: str, out_path: Path, mirror: str, data_set: DataSet) -> FetchedFiles:
    """Get what is not there yet; a file appears only if every byte of it is right.

    Args:
        name: Of the suite.
        out_path: Folder of the files; made if it is missing.
        mirror: Address or folder that stands before ``DataFile.source``.
        data_set: What to get.

    Raises:
        UsageError: If ``out_path`` has another file under one of the names, or the mirror is
            neither an address nor a folder.
        ProblemSetError: If a file cannot be had, or is another one than expected.
        OSError: If something cannot be written.
    """
    kept = _find_kept(out_path, data_set.files)
    read = _choose_reader(mirror)
    fetched: list[str] = []
    for file in data_set.files:
        if file.name in kept:
            continue
        data = read(file)
        found = hashlib.sha256(data).hexdigest()
        if found != file.sha256:
            message = (
                f"{file.source} of {mirror} is another file than expected ({len(data):,} bytes, "
                f"SHA-256 {found[:16]}…, not {file.sha256[:16]}…): that file was not "
                "written. Try another --mirror."
            )
            raise ProblemSetError(message)
        out_path.mkdir(parents=True, exist_ok=True)
        write_atomic(out_path / file.name, data)
        fetched.append(file.name)
    return FetchedFiles(
        name=name,
        licence=data_set.licence,
        home=data_set.home,
        fetched=tuple(fetched),
        kept=tuple(kept),
    )


def _find_kept(out_path: Path, files: Sequence[DataFile]) -> list[str]:
    kept: list[str] = []
    for file in files:
        path = out_path / file.name
        if not path.exists():
            continue
        if not path.is_file() or sha256_file(path) != file.sha256:
            message = f"{path} is there and is something else. Move it, or choose another --out."
            raise UsageError(message)
        kept.append(file.name)
    return kept


def _choose_reader(mirror: str) -> "_Reader":
    if "://" in mirror:
        return _AddressReader(mirror.rstrip("/"))
    if Path(mirror).is_dir():
        return _FolderReader(Path(mirror))
    message = (
        f"--mirror {mirror} is neither an address, as in {FILES_MIRROR}, nor a folder. Give what "
        "stands before owner/name."
    )
    raise UsageError(message)


@dataclass(frozen=True, slots=True)
class _AddressReader:
    base: str

    def __call__(self, file: DataFile) -> bytes:
        address = f"{self.base}/{file.source}"
        data = bytearray()
        try:
            with httpx.stream("GET", address, timeout=_TIMEOUT_S, follow_redirects=True) as answer:
                answer.raise_for_status()
                for chunk in answer.iter_bytes():
                    data += chunk
                    # Whatever it is, it is not the file.
                    if len(data) > file.num_bytes + _MORE_BYTES:
                        break
        except httpx.HTTPError as exc:
            message = (
                f"{address} cannot be fetched: {exc}. Check the network and repeat the command, "
                "or give another --mirror."
            )
            raise ProblemSetError(message) from exc
        return bytes(data)


@dataclass(frozen=True, slots=True)
class _FolderReader:
    base: Path

    def __call__(self, file: DataFile) -> bytes:
        path = self.base / file.source
        try:
            return path.read_bytes()
        except OSError as exc:
            message = f"{path} cannot be read: {exc.strerror}. Check --mirror."
            raise ProblemSetError(message) from exc


_Reader = _AddressReader | _FolderReader
