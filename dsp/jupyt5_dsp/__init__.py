"""The benchmark: problem sets, teacher-forced runs, pass@k, reports."""
