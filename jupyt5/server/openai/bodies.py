"""OpenAI's protocol as data: a body in, a fill job out; a growing text in, events out."""

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from jupyt5.errors import UsageError
from jupyt5.providers import FillRequest, Sampling
from jupyt5.server.fields import RequestError, read_count, read_object, read_text, whole_text
from jupyt5.server.messages import FillJob
from jupyt5.server.openai.cells import Turn, Window, read_chat, read_script

__all__ = ["Bounds", "Question", "Reply", "describe_models", "error_body", "parse_question"]

_MAX_CHOICES = 10
_MAX_STOPS = 8
_MAX_SEED = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What the server offers.

    Attributes:
        models: URIs of its providers, the default first.
        max_tokens: Longest answer, in tokens, of a request that does not say.
        max_tokens_limit: Longest that one may ask for; more is cut to it.
        num_context_cells: Cells before the target that the model sees.
        num_following_cells: Cells after it.
    """

    models: tuple[str, ...]
    max_tokens: int = 128
    max_tokens_limit: int = 1024
    num_context_cells: int = 3
    num_following_cells: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A request as checked.

    Attributes:
        job: For the engine.
        is_chat: Answer as a chat.
        is_fenced: Put the code into a fence: in a chat, unless the asker opened one.
        streams: Answer piece by piece.
        stops: Texts that end an answer.
    """

    job: FillJob
    is_chat: bool
    is_fenced: bool
    streams: bool
    stops: tuple[str, ...]


def parse_question(body: bytes, bounds: Bounds, *, is_chat: bool) -> Question:
    """Check the body of a request for completions or chat completions.

    Raises:
        RequestError: If it is malformed, or names a model that is not served.
    """
    fields = read_object(body)
    window = _read_chat(fields) if is_chat else _read_prompt(fields)
    job = FillJob(
        request_id=("chatcmpl-" if is_chat else "cmpl-") + uuid.uuid4().hex,
        provider=_choose_model(fields, bounds),
        request=FillRequest(
            cells=window.cells,
            target_idx=window.target_idx,
            prefix=window.prefix,
            suffix=window.suffix,
            num_context_cells=bounds.num_context_cells,
            num_following_cells=bounds.num_following_cells,
        ),
        num_candidates=read_count(fields, "n", 1, at_least=1, at_most=_MAX_CHOICES),
        sampling=_read_sampling(fields, bounds),
        seed=read_count(fields, "seed", 0, at_least=-_MAX_SEED, at_most=_MAX_SEED),
    )
    if fields.get("echo"):
        raise RequestError("unsupported", "echo is not supported: send the request without it.")
    return Question(
        job=job,
        is_chat=is_chat,
        is_fenced=is_chat and not window.prefix,
        streams=bool(fields.get("stream")),
        stops=_read_stops(fields),
    )


class Reply:
    """Renders the growing choices of one answer."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._created = int(time.time())
        self._choices: dict[int, _Choice] = {}

    @property
    def is_complete(self) -> bool:
        """Whether nothing that the model may still say belongs into the answer."""
        ended = sum(choice.has_ended for choice in self._choices.values())
        return ended == self._question.job.num_candidates

    def add(self, idx: int, text: str, *, finished: bool) -> list[bytes]:
        """Take a choice's text so far; return the events for a stream."""
        question = self._question
        choice = self._choices.setdefault(idx, _Choice(question.stops, question.is_fenced))
        is_first = not choice.sent
        delta = choice.grow(text, finished=finished)
        events: list[bytes] = []
        if delta:
            events.append(self._event(idx, delta, is_first=is_first))
        if choice.has_ended and not choice.is_told:
            choice.is_told = True
            events.append(self._event(idx, "", finish_reason="stop"))
        return events

    def whole(self) -> bytes:
        """Render the whole answer, for a request that does not stream."""
        choices: list[dict[str, object]] = []
        for idx, choice in sorted(self._choices.items()):
            said: dict[str, object] = {"text": choice.sent}
            if self._question.is_chat:
                said = {"message": {"role": "assistant", "content": choice.sent}}
            choices.append({"index": idx, **said, "logprobs": None, "finish_reason": "stop"})
        return json.dumps(self._frame(choices)).encode()

    def _event(
        self, idx: int, text: str, *, is_first: bool = False, finish_reason: str | None = None
    ) -> bytes:
        said: dict[str, object] = {"text": text}
        if self._question.is_chat:
            role = {"role": "assistant"} if is_first else {}
            said = {"delta": {**role, "content": text} if text else {}}
        choice = {"index": idx, **said, "logprobs": None, "finish_reason": finish_reason}
        return b"data: " + json.dumps(self._frame([choice], chunk=True)).encode() + b"\n\n"

    def _frame(self, choices: object, *, chunk: bool = False) -> dict[str, object]:
        kind = "text_completion"
        if self._question.is_chat:
            kind = "chat.completion.chunk" if chunk else "chat.completion"
        job = self._question.job
        return {
            "id": job.request_id,
            "object": kind,
            "created": self._created,
            "model": job.provider,
            "choices": choices,
        }


class _Choice:
    """One text that is sent while it grows: cut at a stop, held back where one may begin."""

    def __init__(self, stops: Sequence[str], is_fenced: bool) -> None:
        self.sent = ""
        self.has_ended = False
        self.is_told = False
        self._stops = stops
        self._is_fenced = is_fenced

    def grow(self, text: str, *, finished: bool) -> str:
        """Take the text so far and return what is to be sent next."""
        if self.has_ended:
            return ""
        cuts = [cut for stop in self._stops if (cut := text.find(stop)) >= 0]
        self.has_ended = finished or bool(cuts)
        text = text[: min(cuts)] if cuts else text
        if not self.has_ended:
            text = text[: len(text) - self._num_held(text)]
        if self._is_fenced and (text or self.has_ended):
            text = f"```python\n{text}" + ("\n```" if self.has_ended else "")
        if not text.startswith(self.sent):
            return ""  # corrected further up: too late for a stream
        delta = text[len(self.sent) :]
        self.sent = text
        return delta

    def _num_held(self, text: str) -> int:
        """Length of the longest end of a text with which a stop may begin."""
        lengths = (
            length
            for stop in self._stops
            for length in range(min(len(stop) - 1, len(text)), 0, -1)
            if text.endswith(stop[:length])
        )
        return max(lengths, default=0)


def describe_models(models: Sequence[str]) -> dict[str, object]:
    """Render the list of models."""
    return {"object": "list", "data": [describe_model(uri) for uri in models]}


def describe_model(uri: str) -> dict[str, object]:
    """Render one model."""
    return {"id": uri, "object": "model", "created": 0, "owned_by": "jupyt5"}


def error_body(code: str, message: str, *, status: int) -> dict[str, object]:
    """Render an error as OpenAI's clients expect it."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _choose_model(fields: Mapping[str, object], bounds: Bounds) -> str:
    model = read_text(fields, "model", "") or bounds.models[0]
    if model not in bounds.models:
        message = f"There is no model {model!r} here. Served: {', '.join(bounds.models)}."
        raise RequestError("model_not_found", message, status=404)
    return model


def _read_prompt(fields: Mapping[str, object]) -> Window:
    prompt = fields.get("prompt", "")
    if isinstance(prompt, list) and len(cast("list[object]", prompt)) == 1:
        prompt = cast("list[object]", prompt)[0]
    if not isinstance(prompt, str):
        raise RequestError("bad_request", "prompt must be text: one, and no token ids.")
    return read_script(whole_text(prompt), whole_text(read_text(fields, "suffix", "")))


def _read_chat(fields: Mapping[str, object]) -> Window:
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        message = "messages must be a list of at least one {role, content}."
        raise RequestError("bad_request", message)
    turns: list[Turn] = []
    for idx, message in enumerate(cast("list[object]", messages)):
        record = cast("dict[str, object]", message) if isinstance(message, dict) else {}
        role = record.get("role")
        if not isinstance(role, str):
            raise RequestError("bad_request", f"messages[{idx}] must have a role and a content.")
        turns.append(Turn(role, whole_text(_read_content(record.get("content"), idx))))
    return read_chat(turns)


def _read_content(content: object, idx: int) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    parts = cast("list[object]", content) if isinstance(content, list) else [None]
    texts = [
        cast("dict[str, object]", part).get("text") for part in parts if isinstance(part, dict)
    ]
    if len(texts) != len(parts) or not all(isinstance(text, str) for text in texts):
        raise RequestError("bad_request", f"messages[{idx}].content must be text.")
    return "\n".join(cast("list[str]", texts))


def _read_sampling(fields: Mapping[str, object], bounds: Bounds) -> Sampling:
    asked = read_count(fields, "max_completion_tokens", 0, at_most=_MAX_SEED)
    asked = asked or read_count(fields, "max_tokens", bounds.max_tokens, at_most=_MAX_SEED)
    # One answer is the likeliest text; several are drawn, so that they differ.
    usual = 0.0 if fields.get("n") in {None, 1} else 0.8
    try:
        return Sampling(
            temperature=_read_number(fields, "temperature", usual),
            top_p=_read_number(fields, "top_p", 0.95),
            top_k=read_count(fields, "top_k", 50, at_most=_MAX_SEED),
            max_tokens=max(1, min(asked, bounds.max_tokens_limit)),
        )
    except UsageError as exc:
        raise RequestError("bad_request", str(exc)) from exc


def _read_number(fields: Mapping[str, object], name: str, default: float) -> float:
    value = fields.get(name)
    if value is None:
        return default
    if type(value) not in {int, float}:
        raise RequestError("bad_request", f"{name} must be a number.")
    return float(cast("float", value))


def _read_stops(fields: Mapping[str, object]) -> tuple[str, ...]:
    value = fields.get("stop")
    stops = cast("list[object]", value) if isinstance(value, list) else [value] if value else []
    if len(stops) > _MAX_STOPS or not all(isinstance(stop, str) and stop for stop in stops):
        message = f"stop must be a text or a list of at most {_MAX_STOPS} texts."
        raise RequestError("bad_request", message)
    return tuple(cast("list[str]", stops))
