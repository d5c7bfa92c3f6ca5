import asyncio
import time

from jupyt5_corpus.fetch.hosts import Hosts


def run_turns(hosts, *names, length_s=0.0):
    """Take turns all at once; return when each began, by host."""
    begun: dict[str, list[float]] = {}

    async def one(name):
        async with hosts.turn(name):
            begun.setdefault(name, []).append(time.monotonic())
            await asyncio.sleep(length_s)

    async def all_of_them():
        await asyncio.gather(*map(one, names))

    start_s = time.monotonic()
    asyncio.run(all_of_them())
    return {name: [moment - start_s for moment in moments] for name, moments in begun.items()}


def test_turns_of_one_host_follow_each_other_with_a_delay():
    begun = run_turns(Hosts(per_host=9, delay_s=0.1), *"aaaab")
    gaps = [later - earlier for earlier, later in zip(begun["a"], begun["a"][1:], strict=False)]
    assert min(gaps) > 0.09
    assert begun["b"][0] < 0.09


def test_turns_at_the_same_time():
    begun = run_turns(Hosts(per_host=2, delay_s=0.0), *"aaaa", length_s=0.2)["a"]
    assert [round(moment / 0.2) for moment in begun] == [0, 0, 1, 1]


def test_a_pause_counts_for_its_host_only():
    hosts = Hosts(per_host=2, delay_s=0.0)
    hosts.pause("a", 0.3)
    begun = run_turns(hosts, *"aab")
    assert min(begun["a"]) > 0.29
    assert begun["b"][0] < 0.2
