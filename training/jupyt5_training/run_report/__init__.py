"""``RUN/report.html``: a run on one page that asks nothing of a network."""

from jupyt5_training.run_report.write import write_report

__all__ = ["write_report"]
