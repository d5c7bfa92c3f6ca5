"""What the reference runner of DSP does: a fresh kernel and the whole notebook for each sample.

Reads one JSON object a line: ``cells`` (kind and source), ``graded`` (index of the cell that
judges), ``folder`` (to work in). Answers each with a line: seconds on the clock for kernel and
notebook, seconds of each cell as the kernel's own messages tell them, whether the graded cell ran
without an error. Runs under the interpreter whose kernel is to be measured: needs nbclient.
"""

import json
import sys
import time
from datetime import datetime

import nbclient
import nbformat
from nbclient.exceptions import CellTimeoutError


def main():
    """Serve until the input ends."""
    for line in sys.stdin:
        sys.stdout.write(json.dumps(run(json.loads(line))) + "\n")
        sys.stdout.flush()


def run(job):
    """Execute one notebook."""
    cells = [
        nbformat.v4.new_code_cell(text) if kind == "code" else nbformat.v4.new_markdown_cell(text)
        for kind, text in job["cells"]
    ]
    notebook = nbformat.v4.new_notebook(cells=cells)
    started_s = time.perf_counter()
    client = nbclient.NotebookClient(
        notebook,
        timeout=job["timeout_s"],
        kernel_name="python3",
        allow_errors=True,
        resources={"metadata": {"path": job["folder"]}},
    )
    try:
        client.execute()
    except CellTimeoutError:
        return {"timed_out": True}
    wall_s = time.perf_counter() - started_s
    graded = notebook.cells[job["graded"]]
    return {
        "wall_s": wall_s,
        "cells_s": [read_seconds(cell) for cell in notebook.cells],
        "passed": all(output["output_type"] != "error" for output in graded["outputs"]),
    }


def read_seconds(cell):
    """Return how long the kernel was at a cell; 0 for one that was not run."""
    times = cell["metadata"].get("execution", {})
    begun, ended = times.get("iopub.execute_input"), times.get("iopub.status.idle")
    if not begun or not ended:
        return 0.0
    return (parse(ended) - parse(begun)).total_seconds()


def parse(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


if __name__ == "__main__":
    main()
