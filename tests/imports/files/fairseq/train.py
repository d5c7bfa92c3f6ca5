"""fairseq's own training command; see make.sh."""

import argparse

_init = argparse.ArgumentParser.__init__


def _resolving(self, *args, **kwargs):
    """0.12.2's denoising task and BART both declare --max-source-positions."""
    _init(self, *args, **(kwargs | {"conflict_handler": "resolve"}))


if __name__ == "__main__":
    argparse.ArgumentParser.__init__ = _resolving
    from fairseq_cli.train import cli_main  # pyright: ignore

    cli_main()
