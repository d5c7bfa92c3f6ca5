"""``prompts.jsonl``: how long each problem's prompt is, and how long its answers took."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from jupyt5.errors import Jupyt5Error, ProblemSetError
from jupyt5.providers import Provider
from jupyt5.providers.texts import estimate_tokens, find_window
from jupyt5_dsp.jsonl import append_jsonl, read_jsonl, repair_jsonl
from jupyt5_dsp.problems import Problem, ProblemSet
from jupyt5_dsp.samples import Generation, make_request

__all__ = ["PROMPTS_FILE", "PromptSize", "measure_prompt", "note_prompts", "read_prompts"]

PROMPTS_FILE = "prompts.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSize:
    """One problem's prompt.

    Attributes:
        task_id: The problem.
        num_chars: Characters of all that the model was given.
        num_tokens: In the model's own tokens.
        num_left_out: Tokens of what there was to show that did not fit; None if no model was asked.
        is_estimate: Whether the tokens are estimated from bytes: no model was asked, or it keeps
            its tokenizer to itself.
        generation_s: Wall seconds of all the problem's hypotheses; None if not timed.
    """

    task_id: str
    num_chars: int
    num_tokens: int
    is_estimate: bool
    generation_s: float | None = None
    num_left_out: int | None = None


def measure_prompt(
    provider: Provider | None, problem_set: ProblemSet, problem: Problem, generation: Generation
) -> PromptSize:
    """Say how long a problem's prompt is for a provider, or about, for none."""
    request = make_request(problem_set, problem, generation)
    if provider is not None:
        try:
            preview = provider.preview(request, generation.sampling)
        except Jupyt5Error:
            pass  # the model was not asked either
        else:
            return PromptSize(
                task_id=problem.task_id,
                num_chars=len(preview.text),
                num_tokens=preview.num_tokens,
                num_left_out=preview.num_left_out,
                is_estimate=preview.is_estimate,
            )
    text = "\n".join(request.cells[idx].source for idx in find_window(request))
    return PromptSize(
        task_id=problem.task_id,
        num_chars=len(text),
        num_tokens=estimate_tokens(text),
        is_estimate=True,
    )


def note_prompts(run_path: Path, sizes: Sequence[PromptSize]) -> None:
    """Add sizes to a run; a later line on a problem replaces an earlier one."""
    path = run_path / PROMPTS_FILE
    repair_jsonl(path)
    append_jsonl(path, [asdict(size) for size in sizes])


def read_prompts(run_path: Path) -> dict[str, PromptSize]:
    """Return the sizes that a run noted, by task id; none for a run of an older version.

    Raises:
        ProblemSetError: If a line is damaged.
    """
    path = run_path / PROMPTS_FILE
    records = read_jsonl(path) if path.is_file() else ()
    try:
        return {str(record["task_id"]): PromptSize(**record) for record in records}  # pyright: ignore[reportArgumentType]
    except (TypeError, KeyError) as exc:
        message = (
            f"{path} is damaged or of another version ({exc}). Remove it: only lengths and times "
            "of prompts are lost."
        )
        raise ProblemSetError(message) from exc
