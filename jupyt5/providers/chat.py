"""Chat templates: from messages to the pieces of a prompt, special tokens told from text."""

import re
from collections.abc import Iterator, Sequence

from jupyt5.errors import ProviderError
from jupyt5.infilling import Message

__all__ = ["render_chat"]

# Stands for a message's content while the template is at work; private use, so in no template.
_MARK = re.compile("\ue000([0-9]+)\ue001")


def render_chat(
    template: str, messages: Sequence[Message], *, bos: str, eos: str
) -> list[tuple[str, bool]]:
    """Render messages; a last one of the assistant is the beginning of its answer.

    Contents are put in after the template has run, so nothing in a notebook can look like the
    mark of a turn.

    Args:
        template: Jinja source, as tokenizers have it. It comes with the model and is run in
            Jinja's sandbox.
        messages: As ``render_messages`` gives them.
        bos: Text of the token that begins a prompt.
        eos: Text of the token that ends a turn.

    Returns:
        (text, whether special tokens in it count) in order.

    Raises:
        ProviderError: If Jinja is missing or the template fails.
    """
    messages = list(messages)
    prefill = messages.pop()["content"] if messages[-1]["role"] == "assistant" else ""
    contents = [message["content"] for message in messages]
    marked = [
        {"role": message["role"], "content": f"\ue000{idx}\ue001"}
        for idx, message in enumerate(messages)
    ]
    try:
        text = _run(template, marked, bos, eos)
    except ProviderError:
        raise
    except Exception:
        # Some templates refuse a system message; it can be told by the user.
        text = _run_without_system(template, marked, bos, eos)
    return [*_fill(text, contents), (prefill, False)]


def _run(template: str, messages: list[dict[str, str]], bos: str, eos: str) -> str:
    try:
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError as exc:
        message = "Chat models need jinja2. Install it with pip install 'jupyt5[gguf]'."
        raise ProviderError(message) from exc

    def fail(reason: str) -> None:
        raise ValueError(reason)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(
        messages=messages,
        add_generation_prompt=True,
        bos_token=bos,
        eos_token=eos,
        raise_exception=fail,
    )


def _run_without_system(template: str, messages: list[dict[str, str]], bos: str, eos: str) -> str:
    system, user, *rest = messages
    merged = [{"role": "user", "content": f"{system['content']}\n\n{user['content']}"}, *rest]
    try:
        return _run(template, merged, bos, eos)
    except ProviderError:
        raise
    except Exception as exc:
        message = (
            f"The model's chat template cannot be used: {exc}. Use a model with another template, "
            "or one without any."
        )
        raise ProviderError(message) from exc


def _fill(text: str, contents: Sequence[str]) -> Iterator[tuple[str, bool]]:
    end = 0
    for match in _MARK.finditer(text):
        yield text[end : match.start()], True
        yield contents[int(match[1])], False
        end = match.end()
    yield text[end:], True
