"""From rows of ``bench_dsp_throughput.py`` to ratios: overall and by class."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["summarise"]

Row = Mapping[str, Any]

BUDGETS = (1, 20, 100)
SANDBOX_S = 0.005
FLOOR_FACTOR = 1.3
COSTS = ("whole", "without judged cells", "without any cells")


def summarise(rows: Sequence[Row]) -> dict[str, object]:
    """Return the cost of n samples on each side, their ratios, and one more sample's cost.

    Costs are sums over problems, in seconds: ``whole`` is the clock's; ``without judged cells``
    lacks the run time of solution and grading cells; ``without any cells`` lacks that of all
    cells, on each side as often as it runs them.
    """
    groups = {"overall": rows}
    for row in rows:
        groups[classify(row)] = [*groups.get(classify(row), []), row]
    return {
        "num_problems": len(rows),
        "num_timeouts_apart": sum(row["num_timeouts"] for row in rows),
        "num_peer_not_counted": sum(1 for row in rows if not is_complete(row)),
        "share": {name: len(group) / len(rows) for name, group in groups.items()},
        "throughput": {name: compare(group) for name, group in groups.items()},
        "one_more_sample": {name: compare_floor(group) for name, group in groups.items()},
    }


def classify(row: Row) -> str:
    """Return the class of a problem: by what its process has loaded, or that it is not forked."""
    if row["unsafe"]:
        return "fallback"
    return "data-science stack" if row["stack"] else "numpy only"


def is_complete(row: Row) -> bool:
    """Whether both peers came to an end with their one sample."""
    return "wall_s" in row["nbclient"] and bool(row["fresh"]["wall_s"])


def compare(rows: Sequence[Row]) -> dict[str, object]:
    """Return, for each n and cost, seconds on each side and the ratios."""
    complete = [row for row in rows if is_complete(row)]
    found: dict[str, object] = {"num_problems": len(complete)}
    for n in BUDGETS:
        for cost in COSTS:
            costs = [price(row, n, cost) for row in complete]
            fork, fresh, peer = (sum(one[side] for one in costs) for side in range(3))
            found[f"n={n}, {cost}"] = {
                "fork_s": round(fork, 2),
                "fresh_s": round(fresh, 2),
                "nbclient_s": round(peer, 2),
                "fresh/fork": divide(fresh, fork),
                "nbclient/fork": divide(peer, fork),
                "median nbclient/fork": divide(
                    statistics.median(one[2] / one[0] for one in costs) if costs else 0.0, 1.0
                ),
            }
    return found


def price(row: Row, n: int, cost: str) -> tuple[float, float, float]:
    """Return the seconds of n samples by fork, fresh process and nbclient."""
    fork, fresh, peer = row["fork"], row["fresh"], row["nbclient"]
    num = n if row["unsafe"] else min(n, len(fork["wall_s"]))
    judged = cost != COSTS[0]
    cells = cost == COSTS[2]
    fresh_one = fresh["wall_s"][0] - judged * fresh["judged_s"][0] - cells * fresh["context_s"]
    fresh_all = fresh["around_s"] + num * fresh_one
    peer_one = peer["wall_s"] - judged * peer["judged_s"] - cells * peer["other_cells_s"]
    fork_all = fork["around_s"] - cells * fork["context_s"]
    if row["unsafe"]:
        return fork_all + fresh_all, fresh_all, num * peer_one
    fork_all += sum(fork["wall_s"][:num]) - judged * sum(fork["judged_s"][:num])
    return fork_all, fresh_all, num * peer_one


def compare_floor(rows: Sequence[Row]) -> dict[str, object]:
    """Return what one more sample costs beside a bare fork, passing and failing ones."""
    found: dict[str, object] = {}
    for name, passes in (("passing", True), ("failing", False)):
        pairs: list[tuple[float, float]] = []
        medians: list[tuple[float, float]] = []
        for row in rows:
            floor = row["floor"]
            own = [
                (wall_s, floor_s)
                for wall_s, floor_s, verdict in zip(
                    floor["wall_s"], floor["floor_s"], floor["verdicts"], strict=True
                )
                if floor_s and (verdict == "passed") is passes
            ]
            pairs += own
            if own:
                ours, bare = zip(*own, strict=True)
                medians.append((statistics.median(ours), statistics.median(bare)))
        if not pairs:
            continue
        ours_s = statistics.median(pair[0] for pair in pairs)
        floor_s = statistics.median(pair[1] for pair in pairs)
        found[name] = {
            "num_samples": len(pairs),
            "median_ms": round(1000 * ours_s, 1),
            "median_floor_ms": round(1000 * floor_s, 1),
            "mean_ms": round(1000 * statistics.fmean(pair[0] for pair in pairs), 1),
            "mean_floor_ms": round(1000 * statistics.fmean(pair[1] for pair in pairs), 1),
            "allowed_ms": round(1000 * (FLOOR_FACTOR * floor_s + SANDBOX_S), 1),
            "median_extra_ms": round(
                1000 * statistics.median(ours - bare for ours, bare in medians), 1
            ),
            "share_of_problems_within": round(
                sum(ours <= FLOOR_FACTOR * bare + SANDBOX_S for ours, bare in medians)
                / len(medians),
                3,
            ),
        }
    return found


def divide(a: float, b: float) -> float:
    return round(a / b, 1) if b else 0.0
