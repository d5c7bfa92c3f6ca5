"""What Jupyter Server's /metrics says of fill requests."""

import asyncio

import pytest

SLOW = "fake:slow=50&text=" + "+".join(f"w{number}" for number in range(100))
TIMES = ["jupyt5_fill_queue_seconds", "jupyt5_fill_first_text_seconds", "jupyt5_fill_seconds"]


@pytest.fixture
def watch(metric):
    """Return by how much samples have grown since."""

    async def start(*names):
        before = [await metric(name) for name in names]

        async def growth():
            return [await metric(name) - old for name, old in zip(names, before, strict=True)]

        return growth

    return start


def outcome(name):
    return f'jupyt5_fill_requests_total{{outcome="{name}"}}'


async def test_a_request_that_ran_through(fill, watch):
    growth = await watch(outcome("done"), *(f"{name}_count" for name in TIMES))
    await fill(provider="fake:slow=30&text=a+b")
    assert await growth() == [1, 1, 1, 1]


async def test_times_are_those_of_the_request(fill, watch):
    growth = await watch(*(f"{name}_sum" for name in TIMES))
    await fill(provider="fake:slow=100&text=a+b")
    queue, first, total = await growth()
    assert queue < 0.1 <= first < 0.2 + queue
    assert total >= 0.2


async def test_cancelled_failed_and_late(fill, jp_fetch, app, watch):
    growth = await watch(
        *map(outcome, ["cancelled", "failed", "timeout", "done"]), "jupyt5_fill_seconds_count"
    )
    reply = asyncio.ensure_future(fill(provider=SLOW))
    await asyncio.sleep(0.2)
    await jp_fetch("jupyt5", "api", "fill", "r1", method="DELETE")
    await reply
    await fill(provider="fake:fail")
    app.engine._timeout_s = 0.1
    await fill(provider=SLOW)
    assert await growth() == [1, 1, 1, 0, 0]
