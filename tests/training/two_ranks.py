"""Runs under torchrun: several trainings, one after another, in the same processes.

Its arguments are JSON: a list of argument lists for ``jupyt5-train``.
"""

import json
import sys

from jupyt5_training.cli import main
from jupyt5_training.distributed import joined_ranks

if __name__ == "__main__":
    with joined_ranks():
        codes = [main(arguments) for arguments in json.loads(sys.argv[1])]
    sys.exit(max(codes))
