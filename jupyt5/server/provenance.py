"""Where a fill came from, for whoever asks because they keep it with the cell."""

from dataclasses import asdict

from jupyt5 import __version__
from jupyt5.providers import hide_secrets
from jupyt5.providers.places import hide_folders
from jupyt5.server.messages import FillJob

__all__ = ["describe_origin"]


def describe_origin(job: FillJob, model_sha256: str | None) -> dict[str, object]:
    """Return what makes a job's answers what they are; JSON-like.

    Nothing secret is in it, and no folder of this machine.

    Args:
        job: The job.
        model_sha256: Of the weights; None where they are not in one file of this machine.
    """
    return {
        "provider": hide_secrets(hide_folders(job.provider)),
        "model_sha256": model_sha256,
        "jupyt5_version": __version__,
        "seed": job.seed,
        "sampling": asdict(job.sampling),
        "num_candidates": job.num_candidates,
        "num_context_cells": job.request.num_context_cells,
        "num_following_cells": job.request.num_following_cells,
    }
