"""Behind a real JupyterHub: two people at once, by cookie, each with their own key and answers."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from .conftest import USERS, Hub, Person

pytestmark = pytest.mark.slow


def body_of(person: Person, number: int = 0) -> dict[str, object]:
    cells = [
        {"id": "a", "kind": "markdown", "source": f"A secret of {person.name}."},
        {"id": "b", "kind": "code", "source": ""},
    ]
    return {"request_id": f"r{number}", "cells": cells, "target_idx": 1, "language": "python"}


def read(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_keys_and_answers_do_not_cross(hub: Hub, people: list[Person]):
    hub.asked.clear()
    with ThreadPoolExecutor(8) as threads:
        replies = [
            (person, threads.submit(person.post, "jupyt5/api/fill", body_of(person, number)))
            for number in range(4)
            for person in people
        ]
    for person, reply in replies:
        lines = read(reply.result().text)
        texts = [line["text"] for line in lines if line["type"] == "candidate"]
        assert texts == [f"owner = '{person.name}'"]
        assert lines[-1]["type"] == "done"
    assert len(hub.asked) == 8
    for asked in hub.asked:
        assert f"A secret of {asked.owner}." in asked.body
        assert [name for name in USERS if f"of {name}." in asked.body] == [asked.owner]
    # They were answered at the same time, not one after the other.
    ana, ben = ([each for each in hub.asked if each.owner == name] for name in USERS)
    assert any(a.began_s < b.ended_s and b.began_s < a.ended_s for a in ana for b in ben)


def test_text_comes_through_the_proxy_as_it_is_made(hub: Hub, people: list[Person]):
    if not hub.has_node_proxy:
        pytest.skip("The Python port of the proxy holds replies back until their end.")
    person = people[0]
    headers = {"X-XSRFToken": person.xsrf}
    url = person.base_url + "jupyt5/api/fill"
    with person.client.stream("POST", url, json=body_of(person), headers=headers) as reply:
        chunks = list(reply.iter_bytes())
    assert len(chunks) > 2


def test_the_other_persons_server_is_closed(people: list[Person]):
    ana, ben = people
    headers = {"X-XSRFToken": ana.xsrf}
    reply = ana.client.post(f"{ben.base_url}jupyt5/api/fill", json=body_of(ana), headers=headers)
    assert reply.status_code == 403
    assert "candidate" not in reply.text


def test_cookie_without_xsrf_is_refused(people: list[Person]):
    person = people[0]
    reply = person.client.post(person.base_url + "jupyt5/api/fill", json=body_of(person))
    assert reply.status_code == 403


def test_no_key_in_logs_or_status(hub: Hub, people: list[Person]):
    for person in people:
        for path in ("status", "providers"):
            assert "key-of-" not in person.client.get(f"{person.base_url}jupyt5/api/{path}").text
    assert "key-of-" not in hub.log()
