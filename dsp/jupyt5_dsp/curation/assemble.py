"""Candidates and their files, put on disk as a problem set."""

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from jupyt5.files import write_atomic
from jupyt5_dsp.curation.candidates import Candidate, SourceNotebook
from jupyt5_dsp.curation.records import make_record, render_notebook
from jupyt5_dsp.jsonl import render_jsonl
from jupyt5_dsp.problems import PROBLEMS_FILE

__all__ = ["Files", "write_problem_list", "write_set"]

Files = Mapping[str, Sequence[PurePosixPath]]


def write_set(root_path: Path, numbered: Mapping[str, Candidate], files: Files) -> None:
    """Write notebooks, data files and ``problems.jsonl``; what is there already is replaced.

    Args:
        root_path: The set's folder.
        numbered: Task id → candidate, in the order of the list.
        files: Path of each notebook in the set → files to copy, relative to its repository.

    Raises:
        OSError: If something cannot be read or written.
    """
    task_ids: dict[str, dict[int, str]] = {}
    notebooks: dict[str, SourceNotebook] = {}
    for task_id, candidate in numbered.items():
        path = candidate.notebook.set_path
        task_ids.setdefault(path, {})[candidate.cell_idx] = task_id
        notebooks[path] = candidate.notebook
    for path, notebook in notebooks.items():
        text = render_notebook(notebook.notebook, notebook.cells, task_ids[path])
        target_path = root_path / path
        target_path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target_path, text)
        repository = notebook.repository
        for file_path in files[path]:
            _copy(repository.path / file_path, root_path / repository.name / file_path)
    write_problem_list(root_path, numbered, files)


def write_problem_list(root_path: Path, numbered: Mapping[str, Candidate], files: Files) -> None:
    """Write ``problems.jsonl`` alone."""
    records = list(_iter_records(numbered, files))
    write_atomic(root_path / PROBLEMS_FILE, render_jsonl(records))


def _iter_records(numbered: Mapping[str, Candidate], files: Files) -> Iterator[dict[str, object]]:
    counts: Counter[str] = Counter()
    for task_id, candidate in numbered.items():
        notebook = candidate.notebook
        path = notebook.set_path
        record = make_record(
            task_id, path, notebook.cells, candidate.cell_idx, candidate.grading_idxs
        )
        record |= {
            "notebook_problem_index": counts[path],
            "repository": notebook.repository.name,
            "commit": notebook.repository.commit,
            "data_files": [str(file_path) for file_path in files[path]],
        }
        counts[path] += 1
        yield record


def _copy(source_path: Path, target_path: Path) -> None:
    if target_path.is_file():
        return
    target_path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source_path, target_path)
    # Whoever owns the copy may read and change it, whatever the original allowed.
    target_path.chmod(0o644)
