"""From folders of homework to a problem set, filter by filter."""

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from jupyt5.console import progress
from jupyt5.errors import ProblemSetError, UsageError
from jupyt5.files import atomic_folder, write_atomic
from jupyt5_dsp.curation.assemble import Files, write_problem_list, write_set
from jupyt5_dsp.curation.candidates import Candidate, Screening, SourceNotebook, screen
from jupyt5_dsp.curation.data_files import DataFiles, choose_files, list_data_files
from jupyt5_dsp.curation.duplicates import find_near_duplicates
from jupyt5_dsp.curation.execution import filter_of, judge_folder
from jupyt5_dsp.curation.filters import (
    PROBLEM_FILTERS,
    TEXT_FILTERS,
    Filter,
    Rejection,
    count_at_filters,
)
from jupyt5_dsp.curation.readme import render_readme
from jupyt5_dsp.curation.sources import Repository, find_notebooks, open_repositories
from jupyt5_dsp.curation.survey import Subject, Survey, make_survey
from jupyt5_dsp.grader import Execution
from jupyt5_dsp.jsonl import render_jsonl
from jupyt5_dsp.validation import Validation

__all__ = ["BuildConfig", "Built", "build", "screen_all"]

_BUILD_FILE = "build.json"
_COUNTS_FILE = "counts.json"
_REJECTED_FILE = "rejected.jsonl"
_WORK_FOLDER = ".build"
# Pictures of the text and code of the repository are no data.
_NO_DATA = frozenset({".gif", ".jpeg", ".jpg", ".png", ".py", ".svg"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildConfig:
    """What ``dsp-eval build`` was asked for.

    Attributes:
        repository_paths: The folders to look through.
        out_path: The set's folder; None to stop after the filters that run nothing.
        name: First part of the task ids.
        execution: How problems are run.
        num_workers: Notebooks at a time.
        keeps_duplicates: Whether near-duplicates stay, as in the published DSP set.
        limit: How many problems are run; None for all.
    """

    repository_paths: tuple[Path, ...]
    out_path: Path | None
    name: str
    execution: Execution
    num_workers: int = 1
    keeps_duplicates: bool = False
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Built:
    """What a build found: counts at the filters, the survey, and all rejections."""

    counts: list[dict[str, object]]
    survey: Survey
    rejections: list[Rejection]

    def to_record(self) -> dict[str, object]:
        """Return all of it as plain data."""
        return {
            "counts": self.counts,
            "survey": asdict(self.survey),
            "rejected": [one.as_record() for one in self.rejections],
        }


def build(config: BuildConfig) -> Built:
    """Make the set, or go on with one that was broken off.

    Raises:
        UsageError: If a repository is no folder, or the output folder is taken.
        ProblemSetError: If no problem is left; says where the reasons are.
        ExecutionError: If nothing can be run here.
        ModuleNotFoundError: If nbgrader is not installed.
        OSError: If something cannot be written.
    """
    repositories = open_repositories(config.repository_paths)
    out_path = config.out_path
    screening = screen_all(repositories, [out_path] if out_path else [])
    if config.limit is not None:
        _cut(screening, config.limit)
    if out_path is None:
        return _conclude_screening(screening)
    _claim(out_path, _identify(config, screening, repositories))
    return _Build(config, out_path, screening).run()


def screen_all(repositories: Sequence[Repository], outside: Sequence[Path] = ()) -> Screening:
    """Put all notebooks of the repositories through the filters that run nothing.

    Raises:
        ProblemSetError: If there is no notebook at all.
    """
    found = [one for each in repositories for one in find_notebooks(each, outside)]
    if not found:
        names = ", ".join(str(each.path) for each in repositories[:3])
        message = f"No notebook (*.ipynb) is in {names}. Give the folders that hold them."
        raise ProblemSetError(message)
    screening = Screening()
    for one in progress(found, desc="notebooks read", total=len(found), unit="notebook"):
        screen(one, screening)
    return screening


class _Build:
    """One build with a folder; every step can be repeated after a crash."""

    def __init__(self, config: BuildConfig, out_path: Path, screening: Screening) -> None:
        self._config = config
        self._out_path = out_path
        self._screening = screening
        self._rejections = list(screening.rejections)
        notebooks = _notebooks_of(screening.candidates)
        self._repositories = {one.repository.name: one.repository for one in notebooks}
        self._data = {
            name: list_data_files(each.path, [out_path])
            for name, each in self._repositories.items()
        }

    def run(self) -> Built:
        work_path = self._out_path / _WORK_FOLDER
        survivors = self._execute(work_path)
        if not self._config.keeps_duplicates:
            survivors = self._drop_near_duplicates(survivors)
        files = {
            one.set_path: choose_files(self._data[one.repository.name], one.path, one.cells)
            for one in _notebooks_of(survivors)
        }
        numbered = {f"{self._config.name}/{at}": one for at, one in enumerate(survivors)}
        environment: Mapping[str, object] = {}
        if numbered:
            numbered, environment = self._write_checked(numbered, files)
        built = self._conclude(numbered, files, environment)
        shutil.rmtree(work_path, ignore_errors=True)
        return built

    def _execute(self, work_path: Path) -> list[Candidate]:
        """Run all candidates with every file of their repositories at hand."""
        candidates = self._screening.candidates
        if not candidates:
            return []
        stage_path = work_path / "stage"
        if not stage_path.exists():
            everything = {
                one.set_path: sorted(self._data[one.repository.name].paths)
                for one in _notebooks_of(candidates)
            }
            with atomic_folder(stage_path) as folder:
                write_set(folder, {one.key: one for one in candidates}, everything)
        findings, _ = self._judge(stage_path, work_path, "problems run")
        for candidate, finding in zip(candidates, findings, strict=True):
            if failed := filter_of(finding):
                self._reject(candidate, failed, finding.reason)
        return [one for one, finding in zip(candidates, findings, strict=True) if finding.valid]

    def _drop_near_duplicates(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        twins = find_near_duplicates(candidates)
        for candidate in candidates:
            if twin := twins.get(candidate.key):
                self._reject(candidate, "duplicate", f"nearly the same test as {twin}", twin)
        return [one for one in candidates if one.key not in twins]

    def _write_checked(
        self, numbered: Mapping[str, Candidate], files: Files
    ) -> tuple[dict[str, Candidate], Mapping[str, object]]:
        """Write the set and run it once more: now each notebook has its own files alone."""
        write_set(self._out_path, numbered, files)
        findings, environment = self._judge(self._out_path, self._out_path, "problems checked")
        for finding in findings:
            if not finding.valid:
                self._reject(numbered[finding.task_id], "data", finding.reason)
        kept = {one.task_id: numbered[one.task_id] for one in findings if one.valid}
        return kept, environment

    def _judge(
        self, root_path: Path, log_folder: Path, desc: str
    ) -> tuple[list[Validation], Mapping[str, object]]:
        return judge_folder(
            root_path,
            self._config.execution,
            hidden_paths=[each.path for each in self._repositories.values()],
            num_workers=self._config.num_workers,
            log_path=log_folder / "validation.jsonl",
            desc=desc,
        )

    def _reject(
        self, candidate: Candidate, filter_name: str, reason: str, twin: str | None = None
    ) -> None:
        self._rejections.append(_make_rejection(candidate, filter_name, reason, twin))

    def _conclude(
        self, numbered: Mapping[str, Candidate], files: Files, environment: Mapping[str, object]
    ) -> Built:
        """Write all that tells about the set; ``counts.json`` comes last and says it is done."""
        out_path = self._out_path
        subjects = [
            Subject(one, _has_data(files[one.notebook.set_path])) for one in numbered.values()
        ]
        built = _summarise(self._screening, subjects, self._rejections, PROBLEM_FILTERS)
        rejected = render_jsonl([one.as_record() for one in built.rejections])
        write_atomic(out_path / _REJECTED_FILE, rejected)
        if not numbered:
            message = (
                f"No problem is left after the filters. {out_path / _REJECTED_FILE} says why "
                "each solution cell was left out."
            )
            raise ProblemSetError(message)
        write_problem_list(out_path, numbered, files)
        write_atomic(out_path / "survey.json", _render_json(asdict(built.survey)))
        kept = {one.notebook.repository.name for one in numbered.values()}
        repositories = [each for name, each in self._repositories.items() if name in kept]
        text = render_readme(self._config.name, built.counts, built.survey, repositories)
        write_atomic(out_path / "README.md", text)
        counts = {"num_problems": len(numbered), "counts": built.counts, "environment": environment}
        write_atomic(out_path / _COUNTS_FILE, _render_json(counts))
        return built


def _summarise(
    screening: Screening,
    subjects: Sequence[Subject],
    rejections: Sequence[Rejection],
    filters: Sequence[Filter],
) -> Built:
    counts = count_at_filters(
        screening.found, screening.solutions, rejections, problem_filters=filters
    )
    return Built(counts, make_survey(subjects), list(rejections))


def _cut(screening: Screening, limit: int) -> None:
    """Leave only the first candidates, for a trial."""
    for one in screening.candidates[limit:]:
        screening.rejections.append(_make_rejection(one, "limit", f"--limit {limit}"))
    del screening.candidates[limit:]


def _make_rejection(
    candidate: Candidate, filter_name: str, reason: str, twin: str | None = None
) -> Rejection:
    return Rejection(
        filter=filter_name,
        reason=reason,
        repository=candidate.notebook.repository.name,
        path=str(candidate.notebook.path),
        cell_index=candidate.cell_idx,
        duplicate_of=twin,
    )


def _conclude_screening(screening: Screening) -> Built:
    """Summarise what the filters on text found; data files are those that the cells name."""
    data: dict[str, DataFiles] = {}
    has_data: dict[str, bool] = {}
    for one in _notebooks_of(screening.candidates):
        name = one.repository.name
        if name not in data:
            data[name] = list_data_files(one.repository.path)
        has_data[one.set_path] = _has_data(choose_files(data[name], one.path, one.cells))
    subjects = [Subject(one, has_data[one.notebook.set_path]) for one in screening.candidates]
    return _summarise(screening, subjects, screening.rejections, TEXT_FILTERS)


def _has_data(paths: Iterable[PurePosixPath]) -> bool:
    return any(path.suffix.lower() not in _NO_DATA for path in paths)


def _notebooks_of(candidates: Sequence[Candidate]) -> list[SourceNotebook]:
    return list({one.notebook.set_path: one.notebook for one in candidates}.values())


def _identify(
    config: BuildConfig, screening: Screening, repositories: Sequence[Repository]
) -> dict[str, object]:
    """Return what a build depends on; folders of this machine are no part of it."""
    return {
        "name": config.name,
        "repositories": [
            {
                "name": each.name,
                "url": each.url,
                "commit": each.commit,
                "licence_files": list(each.licence_files),
            }
            for each in repositories
        ],
        "candidates": screening.digest(),
        "limits": asdict(config.execution.limits),
        "seed": config.execution.seed,
        "keeps_duplicates": config.keeps_duplicates,
        "limit": config.limit,
    }


def _claim(out_path: Path, identity: Mapping[str, object]) -> None:
    """Make the folder, or make sure that this very build was begun in it and not finished.

    Raises:
        UsageError: If it holds anything else.
    """
    build_path = out_path / _BUILD_FILE
    if build_path.is_file():
        if (out_path / _COUNTS_FILE).is_file():
            message = f"{out_path} holds a finished problem set. Choose another --out."
            raise UsageError(message)
        if json.loads(build_path.read_text(encoding="utf-8")) != json.loads(_render_json(identity)):
            message = (
                f"{out_path} holds a build of other notebooks or with other settings. Choose "
                "another --out, or repeat that command to go on with it."
            )
            raise UsageError(message)
        return
    if out_path.exists() and (not out_path.is_dir() or any(out_path.iterdir())):
        message = f"{out_path} is not empty and holds no build. Choose another --out."
        raise UsageError(message)
    out_path.mkdir(parents=True, exist_ok=True)
    write_atomic(build_path, _render_json(identity))


def _render_json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
