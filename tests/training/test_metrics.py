"""The log of a run: two files, taken up again after a stop, whole after a crash."""

import math
from pathlib import Path

import pytest

from jupyt5_training.metrics import METRICS_NAME, MetricsLog, draw_loss_curve, read_metrics

BOARD_MAGIC = b"brain.Event:2"


def read_board(run: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((run / "tensorboard").iterdir()))


def test_records_go_to_both_logs(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path, resume_step=0)
    step = {"step": 1, "loss": 2.5, "lr": 1e-3, "mfu": 0.3, "rank_step_s": [0.5, 0.7]}
    log.append(step)
    log.append({"step": 1, "validation_loss": 2.25, "dsp_pass_at_1": 0.125})
    log.append({"step": 1, "event": "resumed", "detail": "from step 0"})
    log.close()
    records = read_metrics(tmp_path)
    assert records[0] == step
    assert records[2]["detail"] == "from step 0"
    board = read_board(tmp_path)
    assert BOARD_MAGIC in board
    for tag in ("loss/loss", "loss/validation_loss", "training/lr", "speed/mfu"):
        assert tag.encode() in board
    for tag in ("speed/rank_step_s_min", "speed/rank_step_s_max", "dsp/dsp_pass_at_1"):
        assert tag.encode() in board


def test_figures_that_are_not_finite_are_null(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path, resume_step=0)
    log.append({"step": 1, "loss": math.nan, "grad_norm": math.inf})
    log.close()
    assert (tmp_path / METRICS_NAME).read_text() == '{"step":1,"loss":null,"grad_norm":null}\n'
    assert b"grad_norm" not in read_board(tmp_path)


def test_a_resumed_run_drops_what_it_makes_again(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path, resume_step=0)
    for step in range(1, 6):
        log.append({"step": step, "loss": 10.0 - step})
    log.close()
    with (tmp_path / METRICS_NAME).open("a") as stream:
        stream.write('{"step": 6, "lo')  # killed while writing
    log = MetricsLog(tmp_path, resume_step=3)
    log.append({"step": 4, "loss": 1.0})
    log.rewind(3)
    log.append({"step": 4, "loss": 0.5})
    log.close()
    assert [(r["step"], r["loss"]) for r in read_metrics(tmp_path)] == [
        (1, 9.0),
        (2, 8.0),
        (3, 7.0),
        (4, 0.5),
    ]


def test_a_folder_without_records(tmp_path: Path) -> None:
    assert read_metrics(tmp_path) == []


@pytest.mark.filterwarnings("ignore:No artists with labels")
def test_the_curve_passes_over_missing_losses(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path, resume_step=0)
    log.append({"step": 1, "loss": 3.0})
    log.append({"step": 2, "loss": math.nan})
    log.append({"step": 3, "loss": 2.0, "validation_loss": 2.0})
    log.close()
    assert draw_loss_curve(tmp_path, title="x").stat().st_size > 1000
