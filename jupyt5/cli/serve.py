"""`jupyt5 serve`: a model behind OpenAI's protocol, for other editors and programs."""

import argparse
import os

from jupyt5.cli.command import Command
from jupyt5.cli.output import note, write_text

__all__ = ["COMMAND"]

_TOKEN_ENV = "JUPYT5_SERVE_TOKEN"

_EXAMPLES = f"""\
examples:
  jupyt5 serve
  jupyt5 serve --port 8000 --provider jupyt5:/models/mine
  {_TOKEN_ENV}=... jupyt5 serve --host 0.0.0.0

  curl http://127.0.0.1:8765/v1/completions -H 'Content-Type: application/json' \\
       -d '{{"prompt": "# %%\\nx = 2\\n\\n# %%\\ny =", "suffix": "\\n\\n# %%\\nassert y == 4"}}'
  jupyt5 fill analysis.ipynb --cell 4 --provider 'openai:jupyt5:nano@http://127.0.0.1:8765/v1#fim'

It answers /v1/completions (with suffix), /v1/chat/completions and /v1/models, streaming if asked.
A prompt in percent format (`# %%` opens a cell) is read as cells. The base URL is written on stdout
once requests are taken. Ctrl-C ends the server.
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--provider",
        metavar="URI",
        action="append",
        help="a model to serve; can be given several times (default: jupyt5:nano)",
    )
    add("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    add("--port", type=int, default=8765, help="0 takes any free one (default: 8765)")
    add(
        "--token",
        default="",
        help=f"wanted from every caller as its API key (default: ${_TOKEN_ENV}, which, unlike this "
        "option, is not shown to other users of the machine)",
    )
    add("--parallel", type=int, default=1, metavar="N", help="requests at a time (default: 1)")
    add(
        "--max-waiting",
        type=int,
        default=16,
        metavar="N",
        help="further requests that may wait; more are answered 429 (default: 16)",
    )
    add("--timeout-s", type=float, default=120.0, metavar="S", help="a request (default: 120)")
    add("--max-tokens", type=int, default=1024, metavar="N", help="longest answer (default: 1024)")
    add("--context", type=int, default=3, metavar="C", help="cells before it to read (default: 3)")
    add("--following", type=int, default=1, metavar="F", help="cells after it (default: 1)")


def _serve(options: argparse.Namespace) -> int:
    import asyncio

    from jupyt5.providers import DEFAULT_PROVIDER_URI
    from jupyt5.server.openai import ServeConfig, serve
    from jupyt5.server.openai.bodies import Bounds

    models = tuple(dict.fromkeys(options.provider or [DEFAULT_PROVIDER_URI]))
    _check_counts(options)
    config = ServeConfig(
        bounds=Bounds(
            models=models,
            max_tokens=min(128, options.max_tokens),
            max_tokens_limit=options.max_tokens,
            num_context_cells=options.context,
            num_following_cells=options.following,
        ),
        host=options.host,
        port=options.port,
        token=options.token or os.environ.get(_TOKEN_ENV, ""),
        max_parallel=options.parallel,
        max_waiting=options.max_waiting,
        timeout_s=options.timeout_s,
    )

    def announce(base_url: str) -> None:
        note(f"Serving {', '.join(models)}. Ctrl-C ends the server.")
        write_text(base_url)

    asyncio.run(serve(config, announce))
    return 0


def _check_counts(options: argparse.Namespace) -> None:
    from jupyt5.errors import UsageError

    least = {"parallel": 1, "max_waiting": 0, "max_tokens": 1, "context": 0, "following": 0}
    for name, bound in least.items():
        if getattr(options, name) < bound:
            message = f"--{name.replace('_', '-')} {getattr(options, name)} is less than {bound}."
            raise UsageError(message)
    if not 0 <= options.port <= 65535 or options.timeout_s <= 0:
        raise UsageError("--port must be 0 to 65535 and --timeout-s above 0.")


COMMAND = Command(
    name="serve",
    summary="offer a model to other editors (OpenAI's protocol)",
    description="Offer a model to other editors and programs, over OpenAI's protocol.",
    epilog=_EXAMPLES,
    configure=_configure,
    body=_serve,
)
