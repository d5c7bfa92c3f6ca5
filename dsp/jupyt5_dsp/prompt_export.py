"""``dsp-eval prompts``: all that a model sees of each problem, for a model that is asked elsewhere.

Nothing of a problem's test or reference is among it, so problems that cannot be executed here
have prompts, too.
"""

import logging
from collections.abc import Iterator

from jupyt5.errors import Jupyt5Error
from jupyt5.infilling import render_prompt
from jupyt5.providers import FillRequest, Preview, Provider
from jupyt5.providers.texts import count_omitted, estimate_tokens, find_window, plan_text
from jupyt5_dsp.problems import ProblemSet
from jupyt5_dsp.samples import Generation, make_request

__all__ = ["iter_prompts"]

# Stands above each code cell of a script in percent format.
_CODE_MARK = "# %%\n"

logger = logging.getLogger(__name__)


def iter_prompts(
    provider: Provider | None, problem_set: ProblemSet, generation: Generation
) -> Iterator[dict[str, object] | None]:
    """Yield a line of the export for each problem; None where there is nothing to show.

    Args:
        provider: The prompt is what this one would give its model. Without one it is a text to go
            on from: what the suite shows, as it is if that is one cell, else as a script in
            percent format.
        problem_set: The problems.
        generation: How much is seen, and how much may be written.

    Yields:
        ``task_id``, ``prompt``, ``num_tokens`` (estimated where ``is_estimate``),
        ``num_left_out`` (tokens of what there is to show that did not fit), ``stops`` (where
        ``run`` ends generated text), and ``function`` where a prompt ends with a header.
    """
    for problem in problem_set.problems:
        if problem.shown is None and (reason := problem_set.explain_invalid(problem)):
            logger.warning("%s has no prompt: %s.", problem.task_id, reason)
            yield None
            continue
        request = make_request(problem_set, problem, generation)
        try:
            shown = provider.preview(request, generation.sampling) if provider else _render(request)
        except Jupyt5Error as exc:
            logger.warning("%s has no prompt: %s", problem.task_id, exc)
            yield None
            continue
        record: dict[str, object] = {
            "task_id": problem.task_id,
            "prompt": shown.text,
            "num_tokens": shown.num_tokens,
            "is_estimate": shown.is_estimate,
            "num_left_out": shown.num_left_out,
            "stops": list(problem_set.stops),
        }
        if problem.shown and problem.shown.function:
            record["function"] = problem.shown.function
        yield record


def _render(request: FillRequest) -> Preview:
    budget_tokens = request.prompt_tokens
    assert budget_tokens is not None
    plan, texts = plan_text(request, estimate_tokens, budget_tokens=budget_tokens)
    text = render_prompt(plan, texts).before
    if len(find_window(request)) == 1:
        text = text.removeprefix(_CODE_MARK)
    left_out = count_omitted(request, estimate_tokens, budget_tokens=budget_tokens)
    return Preview(text, estimate_tokens(text), left_out, is_estimate=True)
