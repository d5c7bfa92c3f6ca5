"""Every error that JuPyT5 raises on purpose.

::

    Jupyt5Error              catch this one to catch them all
    ├── UsageError           the command was wrong (exit code 2)
    ├── NotebookError        a notebook cannot be read or written
    ├── ContextError         nothing around the target cell to work from
    ├── TokenizerError       a tokenizer file cannot be trained, read or used
    ├── CheckpointError      a checkpoint folder is missing, damaged or of another kind
    ├── ProviderError        a provider cannot load or answer
    │   └── OfflineError     its server is not there, or lets nobody in
    ├── ExecutionError       cells cannot be run at all (not: a cell failed)
    ├── CorpusError          a corpus source or folder is unusable
    ├── TrainingError        a training run cannot start or go on
    └── ProblemSetError      a benchmark problem set is unusable

The text of an error is the whole message for the user: what happened, where, the value, and
what to do next.
"""

__all__ = [
    "CheckpointError",
    "ContextError",
    "CorpusError",
    "ExecutionError",
    "Jupyt5Error",
    "NotebookError",
    "OfflineError",
    "ProblemSetError",
    "ProviderError",
    "TokenizerError",
    "TrainingError",
    "UsageError",
]


class Jupyt5Error(Exception):
    """Base of all errors a user can cause or mend."""

    exit_code = 1


class UsageError(Jupyt5Error):
    """Raised when an option, URI, name or index given by the user is wrong."""

    exit_code = 2


class NotebookError(Jupyt5Error):
    """Raised when a file is not a notebook or cannot be written as one.

    Attributes:
        advice: The end of the message that tells the file's owner what to do, "" for none.
    """

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(f"{message} {advice}" if advice else message)
        self.advice = advice


class ContextError(Jupyt5Error):
    """Raised when the target cell has neither text nor neighbours to work from."""


class TokenizerError(Jupyt5Error):
    """Raised when a tokenizer cannot be trained, read or used."""


class CheckpointError(Jupyt5Error):
    """Raised when a checkpoint folder is missing, damaged or of another kind."""


class ProviderError(Jupyt5Error):
    """Raised when a provider cannot load its model or fails while answering."""


class OfflineError(ProviderError):
    """Raised when a provider's server cannot be used now, whatever it is asked."""


class ExecutionError(Jupyt5Error):
    """Raised when cells cannot be run at all, e.g. no kernel or no sandbox."""


class CorpusError(Jupyt5Error):
    """Raised when a corpus source, holdout list or output folder is unusable."""


class TrainingError(Jupyt5Error):
    """Raised when a training run cannot start or go on."""


class ProblemSetError(Jupyt5Error):
    """Raised when a benchmark problem set or a samples file is unusable."""
