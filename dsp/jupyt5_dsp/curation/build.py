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
from jupyt5_dsp.curation.execution import filter_of, judge_folder, list_opened
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

__all__ = ["BuildConfig", "Built", "build", "preview"]

_BUILD_FILE = "build.json"
_COUNTS_FILE = "counts.json"
_REJECTED_FILE = "rejected.jsonl"
_WORK_FOLDER = ".build"
_NEAR = "nearly the same test as {}"
# Pictures of the text and code of the repository are no data.
_NO_DATA = frozenset({".gif", ".jpeg", ".jpg", ".png", ".py", ".svg"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildConfig:
    """What ``dsp-eval build`` was asked for.

    Attributes:
        repository_paths: The folders to look through.
        out_path: The set's folder.
        name: First part of the task ids.
        execution: How problems are run.
        num_workers: Notebooks at a time.
        keeps_duplicates: Whether near-duplicates stay, as in the published DSP set.
        limit: How many problems are run; None for all.
    """

    repository_paths: tuple[Path, ...]
    out_path: Path
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
    screening = _screen_all(repositories, config.limit, [config.out_path])
    _claim(config.out_path, _identify(config, screening, repositories))
    return _Build(config, screening).run()


def preview(
    repository_paths: Sequence[Path], *, limit: int | None = None, keeps_duplicates: bool = False
) -> Built:
    """Apply the filters that neither run nor write anything.

    Of near-duplicates the first one is taken to be good. The survey is one of the survivors, with
    the data files that their cells name.

    Raises:
        UsageError: If a repository is no folder.
        ProblemSetError: If there is no notebook at all.
        ModuleNotFoundError: If nbgrader is not installed.
    """
    screening = _screen_all(open_repositories(repository_paths), limit)
    rejections = list(screening.rejections)
    twins = {} if keeps_duplicates else find_near_duplicates(screening.candidates)
    left: list[Candidate] = []
    for one in screening.candidates:
        if twin := twins.get(one.key):
            rejections.append(_make_rejection(one, "duplicate", _NEAR.format(twin), twin))
        else:
            left.append(one)
    data: dict[str, DataFiles] = {}
    has_data: dict[str, bool] = {}
    for one in _notebooks_of(left):
        name = one.repository.name
        if name not in data:
            data[name] = list_data_files(one.repository.path)
        has_data[one.set_path] = _has_data(choose_files(data[name], one.path, one.cells))
    subjects = [Subject(one, has_data[one.notebook.set_path]) for one in left]
    return _summarise(screening, subjects, rejections, TEXT_FILTERS)


def _screen_all(
    repositories: Sequence[Repository], limit: int | None, outside: Sequence[Path] = ()
) -> Screening:
    """Put all notebooks of the repositories through the filters that run nothing."""
    found = [one for each in repositories for one in find_notebooks(each, outside)]
    if not found:
        names = ", ".join(str(each.path) for each in repositories[:3])
        message = f"No notebook (*.ipynb) is in {names}. Give the folders that hold them."
        raise ProblemSetError(message)
    screening = Screening()
    for one in progress(found, desc="notebooks read", total=len(found), unit="notebook"):
        screen(one, screening)
    if limit is not None:
        for candidate in screening.candidates[limit:]:
            screening.rejections.append(_make_rejection(candidate, "limit", f"--limit {limit}"))
        del screening.candidates[limit:]
    return screening


class _Build:
    """One build with a folder; every step can be repeated after a crash."""

    def __init__(self, config: BuildConfig, screening: Screening) -> None:
        self._config = config
        self._out_path = config.out_path
        self._work_path = config.out_path / _WORK_FOLDER
        self._screening = screening
        self._rejections = list(screening.rejections)
        notebooks = _notebooks_of(screening.candidates)
        self._repositories = {one.repository.name: one.repository for one in notebooks}
        self._data = {
            name: list_data_files(each.path, [config.out_path])
            for name, each in self._repositories.items()
        }

    def run(self) -> Built:
        survivors = self._execute()
        files: Files = self._choose_files(survivors) if survivors else {}
        numbered = {f"{self._config.name}/{at}": one for at, one in enumerate(survivors)}
        environment: Mapping[str, object] = {}
        if numbered:
            numbered, environment = self._write_checked(numbered, files)
        built = self._conclude(numbered, files, environment)
        shutil.rmtree(self._work_path, ignore_errors=True)
        return built

    def _execute(self) -> list[Candidate]:
        """Run candidates with every file of their repositories at hand.

        Of near-duplicates the first one is run; the next one only if that is no good.
        """
        left = list(self._screening.candidates)
        if not left:
            return []
        stage_path = self._work_path / "stage"
        if not stage_path.exists():
            everything = {
                one.set_path: sorted(self._data[one.repository.name].paths)
                for one in _notebooks_of(left)
            }
            with atomic_folder(stage_path) as folder:
                write_set(folder, {one.key: one for one in left}, everything)
        passed: dict[str, Candidate] = {}
        while left:
            twins = self._find_twins([*passed.values(), *left])
            task_ids = [one.key for one in left if one.key not in twins]
            findings, _ = self._judge(stage_path, self._work_path, "problems run", task_ids)
            by_key = {one.key: one for one in left}
            for finding in findings:
                if failed := filter_of(finding):
                    self._reject(by_key[finding.task_id], failed, finding.reason)
                else:
                    passed[finding.task_id] = by_key[finding.task_id]
            for one in left:
                if (twin := twins.get(one.key)) in passed:
                    self._reject(one, "duplicate", _NEAR.format(twin), twin)
            left = [one for one in left if one.key in twins and twins[one.key] not in passed]
        return [one for one in self._screening.candidates if one.key in passed]

    def _find_twins(self, candidates: Sequence[Candidate]) -> dict[str, str]:
        return {} if self._config.keeps_duplicates else find_near_duplicates(candidates)

    def _choose_files(self, candidates: Sequence[Candidate]) -> Files:
        """Choose each notebook's files: what it opened when it ran, and what it names."""
        opened = list_opened(
            self._work_path / "stage",
            self._config.execution,
            task_ids=[one.key for one in candidates],
            hidden_paths=[each.path for each in self._repositories.values()],
            num_workers=self._config.num_workers,
            log_path=self._work_path / "opened.jsonl",
        )
        return {
            one.set_path: choose_files(
                self._data[one.repository.name], one.path, one.cells, opened[one.set_path]
            )
            for one in _notebooks_of(candidates)
        }

    def _write_checked(
        self, numbered: Mapping[str, Candidate], files: Files
    ) -> tuple[dict[str, Candidate], Mapping[str, object]]:
        """Write the set and run it once more: now each notebook has its own files alone."""
        write_set(self._out_path, numbered, files)
        findings, environment = self._judge(
            self._out_path, self._out_path, "problems checked", list(numbered)
        )
        for finding in findings:
            if not finding.valid:
                self._reject(numbered[finding.task_id], "data", finding.reason)
        kept = {one.task_id: numbered[one.task_id] for one in findings if one.valid}
        return kept, environment

    def _judge(
        self, root_path: Path, log_folder: Path, desc: str, task_ids: Sequence[str]
    ) -> tuple[list[Validation], Mapping[str, object]]:
        return judge_folder(
            root_path,
            self._config.execution,
            task_ids=task_ids,
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
    place = {found: at for at, found in enumerate(screening.found)}
    in_order = sorted(
        rejections, key=lambda one: (place[one.repository, one.path], one.cell_index or 0)
    )
    return Built(counts, make_survey(subjects), in_order)


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
