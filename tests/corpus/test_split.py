import hashlib

import pytest

from jupyt5_corpus.split import Families, side_of


def families_of(*notebooks):
    families = Families()
    first_with = {}
    for repo, content_hash, fork_of in notebooks:
        families.add(repo, fork_of=fork_of)
        if content_hash is not None:
            families.join(repo, first_with.setdefault(content_hash, repo))
    return families.names()


def test_shared_content_and_forks_connect_through_others():
    names = families_of(
        ("d/d", "1", None),
        ("c/c", "1", None),
        ("c/c", "2", None),
        ("b/b", "3", "c/c"),
        ("e/e", "4", None),
    )
    assert names == {"b/b": "b/b", "c/c": "b/b", "d/d": "b/b", "e/e": "e/e"}


def test_two_forks_of_an_absent_repository_are_one_family_named_by_a_present_one():
    names = families_of(("n/fork", "1", "a/origin"), ("m/fork", "2", "a/origin"))
    assert names == {"m/fork": "m/fork", "n/fork": "m/fork"}


def test_notebooks_without_telling_content_connect_nothing():
    assert families_of(("a/a", None, None), ("b/b", None, None)) == {"a/a": "a/a", "b/b": "b/b"}


def test_the_order_of_notebooks_does_not_matter():
    notebooks = [(f"r/{n}", str(n // 2), f"r/{n + 3}" if n % 5 == 0 else None) for n in range(40)]
    assert families_of(*notebooks) == families_of(*reversed(notebooks))


@pytest.mark.parametrize("family", ["bkamins/Julia-DataFrames-Tutorial", "ageron/handson-ml2"])
def test_sides_follow_the_published_rule(family):
    remainder = int.from_bytes(hashlib.sha256(family.encode()).digest(), "big") % 100
    assert side_of(family) == ("validation" if remainder < 2 else "train")


def test_about_two_in_a_hundred_families_validate():
    sides = [side_of(f"owner/repo-{n}") for n in range(5000)]
    assert 60 < sides.count("validation") < 140
