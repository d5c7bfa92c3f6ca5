"""Starts ``jupyt5-train`` processes without importing torch again for each one.

Run as a script. Every line of stdin is a JSON object, answered by a line on stdout:
``{"argv": [...], "env": {...}, "log": PATH}`` starts a process and answers its id;
``{"wait": ID}`` waits for it and answers its exit code, negative for a signal.
"""

import json
import os
import sys

from jupyt5_training import runs  # noqa: F401  what takes long to import
from jupyt5_training.cli import main


def become_training(command: dict) -> None:
    log = os.open(command["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number, descriptor in ((0, os.open(os.devnull, os.O_RDONLY)), (1, log), (2, log)):
        os.dup2(descriptor, number)
    os.environ.update(command["env"])
    sys.exit(main(command["argv"]))


def serve() -> None:
    for line in sys.stdin:
        command = json.loads(line)
        if "wait" in command:
            answer = os.waitstatus_to_exitcode(os.waitpid(command["wait"], 0)[1])
        else:
            answer = os.fork()
            if not answer:
                become_training(command)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
