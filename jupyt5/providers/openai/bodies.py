"""OpenAI's protocol as data: the body of a request, and what a piece of an answer says.

``top_k`` is not part of the protocol and is never sent; servers apply their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from jupyt5.infilling import render_messages, render_prompt
from jupyt5.providers.base import FillRequest, Sampling
from jupyt5.providers.openai.failures import dig
from jupyt5.providers.openai.settings import Address
from jupyt5.providers.texts import estimate_tokens, plan_text

__all__ = ["Body", "Piece", "build_body", "find_refused", "read_piece", "render_body", "without"]

Body = dict[str, object]

# Settings that some servers refuse, and without which the same text is asked for.
_DISPENSABLE = ("max_tokens", "logprobs", "seed")
_MAX_STOPS = 4  # the protocol's limit


@dataclass(frozen=True, slots=True)
class Piece:
    """What one event of a stream, or a whole answer, says of the first choice."""

    text: str
    finished: bool
    log_probs: tuple[float, ...] = ()


def build_body(
    address: Address, request: FillRequest, sampling: Sampling, *, seed: int, budget_tokens: int
) -> Body:
    """Build the body that asks for one hypothesis.

    Args:
        address: The model, and whether it is asked as a chat, by prompt and suffix, or by prompt.
        request: The cell to fill.
        sampling: How to draw; all but ``top_k`` is sent.
        seed: Seed of this hypothesis.
        budget_tokens: Most tokens of the notebook, as estimated.
    """
    plan, texts = plan_text(request, estimate_tokens, budget_tokens=budget_tokens)
    body: Body = {
        "model": address.model,
        "stream": True,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        "seed": seed,
    }
    if address.style == "chat":
        return body | {"messages": render_messages(plan, texts), "logprobs": True}
    is_fim = address.style == "fim"
    prompt = render_prompt(plan, texts, infill=is_fim)
    body |= {"prompt": prompt.before, "stop": list(prompt.stop[:_MAX_STOPS]), "logprobs": 1}
    return body | {"suffix": prompt.after} if is_fim else body


def render_body(body: Mapping[str, object]) -> str:
    """Return the words of a body, for people."""
    if "messages" in body:
        messages = cast("list[dict[str, str]]", body["messages"])
        return "\n\n".join(f"[{each['role']}]\n{each['content']}" for each in messages)
    suffix = f"\n[suffix]\n{body['suffix']}" if "suffix" in body else ""
    return f"[prompt]\n{body['prompt']}{suffix}"


def find_refused(body: Mapping[str, object], said: str) -> str | None:
    """Return the setting that a refusal names and that can be done without."""
    return next((name for name in _DISPENSABLE if name in body and name in said), None)


def without(body: Mapping[str, object], name: str) -> Body:
    """Return a body without a setting that the server refused."""
    rest = {key: value for key, value in body.items() if key != name}
    if name == "max_tokens":  # what OpenAI's newer models call it
        rest["max_completion_tokens"] = body[name]
    return rest


def read_piece(event: object) -> Piece | None:
    """Read an event or a whole answer; None if it is none of the protocol's."""
    choices = dig(event, "choices")
    if not isinstance(choices, list):
        return None
    for choice in cast("list[object]", choices):
        if dig(choice, "index") in {0, None}:
            return Piece(
                _find_text(choice), dig(choice, "finish_reason") is not None, _log_probs(choice)
            )
    return Piece("", finished=False)


def _find_text(choice: object) -> str:
    for path in (("delta", "content"), ("message", "content"), ("text",)):
        text = dig(choice, *path)
        if isinstance(text, str):
            return text
    return ""


def _log_probs(choice: object) -> tuple[float, ...]:
    values = dig(choice, "logprobs", "token_logprobs")
    tokens = dig(choice, "logprobs", "content")
    if isinstance(tokens, list):
        values = [dig(token, "logprob") for token in cast("list[object]", tokens)]
    if not isinstance(values, list):
        return ()
    return tuple(value for value in cast("list[object]", values) if isinstance(value, float | int))
