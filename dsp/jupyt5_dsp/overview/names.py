"""What runs and providers are called, and what a reader must know before comparing runs."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from jupyt5_dsp.overview.rows import ProblemRow, RunRow
from jupyt5_dsp.reasons import count_reasons
from jupyt5_dsp.report.settings import word_settings

__all__ = ["group_runs", "list_notes", "name_folders", "name_providers", "word_run_settings"]

_NUM_NAMED = 6
_NUM_REASONS = 3
_PAIR = 2


def name_folders(run_paths: Sequence[Path]) -> dict[Path, str]:
    """Return a name for each folder, given twice or not: as much of its path's end as it takes."""
    paths = list(dict.fromkeys(path.resolve() for path in run_paths))
    ends = _shorten([path.parts for path in paths])
    return {path: "/".join(end) for path, end in zip(paths, ends, strict=True)}


def name_providers(runs: Sequence[RunRow]) -> dict[str, str]:
    """Return a short name for each provider: of a path, as much of its end as it takes."""
    providers = sorted({run.provider for run in runs})
    ends = _shorten([tuple(provider.split("/")) for provider in providers])
    names: dict[str, str] = {}
    for provider, end in zip(providers, ends, strict=True):
        head = provider.partition("/")[0]
        scheme = head[: head.find(":") + 1]
        is_whole = len(end) == len(provider.split("/"))
        names[provider] = provider if is_whole else f"{scheme}…/{'/'.join(end)}"
    return names


def group_runs(runs: Sequence[RunRow]) -> dict[str, list[RunRow]]:
    """Return runs by version of a suite: only they stand on the same rules."""
    groups: defaultdict[str, list[RunRow]] = defaultdict(list)
    for run in runs:
        groups[run.suite_version].append(run)
    return dict(groups)


def word_run_settings(run: RunRow, runs: Sequence[RunRow]) -> str:
    """Return a run's settings in short words, as far as they tell it from ``runs``."""
    peers = [other.settings for other in runs if other.suite == run.suite]
    return ", ".join(word_settings(run.settings, peers))


def list_notes(runs: Sequence[RunRow]) -> list[str]:
    """Return, in sentences, why some of the numbers cannot be compared as they stand."""
    return [
        *_iter_version_notes(runs),
        *_iter_problem_notes(runs),
        *_iter_valid_notes(runs),
        *_iter_coverage_notes(runs),
        *_iter_prompt_notes(runs),
    ]


def _iter_version_notes(runs: Sequence[RunRow]) -> Iterator[str]:
    for suite in sorted({run.suite for run in runs}):
        versions = sorted({run.suite_version for run in runs if run.suite == suite})
        if len(versions) > 1:
            yield (
                f"Runs of {suite} follow different versions of its rules ({', '.join(versions)}): "
                "do not compare their rates. Repeat the older runs."
            )


def _iter_problem_notes(runs: Sequence[RunRow]) -> Iterator[str]:
    for version, group in group_runs(runs).items():
        sets: defaultdict[str | None, list[RunRow]] = defaultdict(list)
        for run in group:
            sets[run.settings.problem_set].append(run)
        if len(sets) > 1:
            told = "; ".join(
                f"{members[0].num_problems:,} in {_list_names(members)}"
                for members in sets.values()
            )
            yield (
                f"Runs of {version} are not over the same problems ({told}): compare only runs "
                "over the same."
            )


def _iter_valid_notes(runs: Sequence[RunRow]) -> Iterator[str]:
    """Say which runs over the same problems judge others of them, and why."""
    same: defaultdict[tuple[str, str | None], list[RunRow]] = defaultdict(list)
    for run in runs:
        same[run.suite_version, run.settings.problem_set].append(run)
    for (version, _), group in same.items():
        sets: defaultdict[frozenset[str], list[RunRow]] = defaultdict(list)
        for run in group:
            sets[frozenset(one.task_id for one in run.problems if one.usable == "yes")].append(run)
        if len(sets) == 1:
            continue
        yield _word_valid_sets(version, sets)
        judged = frozenset[str]().union(*sets)
        for valid, members in sets.items():
            for run in members:
                lacking = [one for one in run.problems if one.task_id in judged - valid]
                if lacking:
                    yield f"{run.run} cannot judge what others do: {_list_reasons(lacking)}."


def _word_valid_sets(version: str, sets: Mapping[frozenset[str], Sequence[RunRow]]) -> str:
    first, *others = sets
    common = len(first.intersection(*others))
    if all(len(members) == 1 for members in sets.values()) and len(sets) == _PAIR:
        names = " and ".join(members[0].run for members in sets.values())
        counts = " and ".join(f"{len(valid):,}" for valid in sets)
        return f"{names} judge different problems: {counts} valid, {common:,} in both."
    told = "; ".join(f"{len(valid):,} in {_list_names(members)}" for valid, members in sets.items())
    return f"Runs of {version} judge different problems, valid: {told}; {common:,} in all."


def _list_reasons(problems: Sequence[ProblemRow]) -> str:
    found = count_reasons([{"usable": one.usable, "reason": one.reason} for one in problems])
    rest = sum(count for count, _ in found[_NUM_REASONS:])
    told = [f"{count:,} {reason}" for count, reason in found[:_NUM_REASONS]]
    return ", ".join([*told, f"{rest:,} for other reasons"] if rest else told)


def _iter_coverage_notes(runs: Sequence[RunRow]) -> Iterator[str]:
    for run in runs:
        why = "was broken off" if run.partial else ""
        if run.num_valid_attempted < run.num_valid:
            why = f"{why}: it has" if why else "has"
            why += (
                f" samples of {run.num_valid_attempted:,} of {run.num_valid:,} valid problems. "
                "The others count as failed in pass@k over valid; “attempted” leaves them out"
            )
        if why:
            yield f"{run.run} {why}."


def _iter_prompt_notes(runs: Sequence[RunRow]) -> Iterator[str]:
    cut = [run for run in runs if run.num_prompts_cut]
    if cut:
        told = "; ".join(
            f"{run.num_prompts_cut:,} of {run.num_valid:,} in {run.run}" for run in cut
        )
        yield f"Prompts that did not fit the model were cut, of valid problems: {told}."


def _list_names(runs: Sequence[RunRow]) -> str:
    more = len(runs) - _NUM_NAMED
    named = ", ".join(run.run for run in runs[:_NUM_NAMED])
    return named + (f" and {more} more" if more > 0 else "")


def _shorten(names: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return as much of each name's end as tells it from the others."""
    return [_shorten_one(name, [other for other in names if other != name]) for name in names]


def _shorten_one(name: tuple[str, ...], others: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    length = 1
    while any(other[-length:] == name[-length:] for other in others) and length < len(name):
        length += 1
    return name[-length:]
