"""Casebook A6, A8 and A10 on the server, as far as no other file has them."""

import json

import pytest

from jupyt5.providers import FillRequest
from jupyt5.providers.fake import FakeProvider
from jupyt5.server.handlers import HANDLERS

EXERCISE = [
    {"id": "a", "kind": "code", "source": "def add(a, b): return a + b"},
    {"id": "b", "kind": "markdown", "source": "Add three numbers with the helper above."},
    {"id": "c", "kind": "code", "source": ""},
    {"id": "d", "kind": "code", "source": "assert add3(1, 2, 3) == 6"},
]
RAW = {"id": "r", "kind": "raw", "source": "not for the model"}
NEXT = {"id": "n", "kind": "markdown", "source": "## Exercise 2\nSubtract."}
WHOLE = ["def add(a, b): return a + b", EXERCISE[1]["source"], EXERCISE[3]["source"]]


@pytest.fixture
def ask(jp_fetch, body):
    """What of a request would reach the model."""

    async def send(**fields: object) -> str:
        response = await jp_fetch("jupyt5", "api", "context", method="POST", body=body(**fields))
        return json.loads(response.body)["text"]

    return send


@pytest.mark.parametrize(
    ("cells", "target_idx", "wanted"),
    [
        (EXERCISE, 2, WHOLE),
        (EXERCISE[2:], 0, WHOLE[2:]),
        (EXERCISE[:3], 2, WHOLE[:2]),
        ([EXERCISE[0], *EXERCISE[2:]], 1, [WHOLE[0], WHOLE[2]]),
        ([*EXERCISE[:2], RAW, *EXERCISE[2:]], 3, WHOLE),
        ([*EXERCISE, NEXT], 2, WHOLE),
    ],
    ids=["whole", "first", "last", "no Markdown", "raw between", "next exercise"],
)
async def test_the_cells_around_are_the_context(ask, cells, target_idx, wanted):
    text = await ask(cells=cells, target_idx=target_idx)
    places = [text.find(source) for source in wanted]
    assert -1 not in places
    assert places == sorted(places)
    for other in {*WHOLE, RAW["source"], NEXT["source"]} - set(wanted):
        assert other not in text


async def test_a_cell_longer_than_the_budget(ask, fill):
    """It is cut at a line end, what is nearest the cursor stays, and nothing fails."""
    lines = [f"value_{number} = compute({number})" for number in range(3_000)]
    long = {"id": "l", "kind": "code", "source": "\n".join(lines)}
    text = await ask(provider="jupyt5:nano", cells=[EXERCISE[1], long, EXERCISE[3]], target_idx=1)
    known = set(lines)
    kept = [line for line in text.splitlines() if line in known]
    assert lines[-1] in text  # the slot's mark follows in the same line
    assert kept == lines[-len(kept) - 1 : -1]
    assert 10 < len(kept) < 500
    assert EXERCISE[1]["source"] in text
    assert EXERCISE[3]["source"] in text
    reply = await fill(cells=[EXERCISE[1], long, EXERCISE[3]], target_idx=1)
    assert reply[-1]["type"] == "done"


async def test_magics_in_context_cells_do_no_harm(fill, monkeypatch):
    seen: list[FillRequest] = []
    original = FakeProvider.generate

    def spy(self, request, *args):
        seen.append(request)
        return original(self, request, *args)

    monkeypatch.setattr(FakeProvider, "generate", spy)
    magics = ["%matplotlib inline", "!pip list", "df?\n?df", "%%bash\nls 'open", "x = %time f("]
    cells = [
        *({"id": f"m{idx}", "kind": "code", "source": text} for idx, text in enumerate(magics)),
        {"id": "t", "kind": "code", "source": "for i in range(3):"},
        {"id": "b", "kind": "code", "source": "!echo it's open ("},
    ]
    lines = await fill(
        cells=cells, target_idx=5, num_context_cells=5, provider="fake:text=print(i)"
    )
    assert [cell.source for cell in seen[0].cells[:5]] == magics
    assert lines[-2]["text"] == "\n    print(i)"
    assert lines[-1]["type"] == "done"


def example_of(pattern: str) -> str:
    """An address that a route's pattern matches."""
    head, _, rest = pattern.removeprefix("/").partition("(")
    return head + ("r1" if rest else "")


async def test_every_verb_of_every_route_wants_credentials(app, http_server_client, jp_base_url):
    asked = 0
    for pattern, handler in HANDLERS:
        for verb in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            if verb.lower() not in vars(handler):
                continue
            response = await http_server_client.fetch(
                jp_base_url + example_of(pattern),
                method=verb,
                body=None if verb in ("GET", "DELETE") else "{}",
                raise_error=False,
            )
            assert response.code == 403, (verb, pattern)
            assert "message" in json.loads(response.body), (verb, pattern)
            asked += 1
    assert asked >= len(HANDLERS)


async def log_in(http_server_client, jp_base_url, token):
    pairs: list[str] = []
    for query in ["", f"?token={token}"]:  # the login page brings _xsrf, the token the cookie
        response = await http_server_client.fetch(
            f"{jp_base_url}login{query}", follow_redirects=False, raise_error=False
        )
        pairs += [each.split(";")[0] for each in response.headers.get_list("Set-Cookie")]
    xsrf = dict(pair.split("=", 1) for pair in pairs)["_xsrf"]
    return {"Cookie": "; ".join(pairs), "X-XSRFToken": xsrf}


async def test_a_page_of_another_origin_is_refused(
    app, http_server_client, jp_base_url, jp_serverapp, body
):
    url = f"{jp_base_url}jupyt5/api/fill"
    headers = await log_in(http_server_client, jp_base_url, jp_serverapp.identity_provider.token)
    codes = {}
    for origin in ("http://evil.example", None):
        response = await http_server_client.fetch(
            url,
            method="POST",
            body=body(),
            headers=headers | ({"Origin": origin} if origin else {}),
            raise_error=False,
        )
        codes[origin] = response.code
    assert codes == {"http://evil.example": 403, None: 200}
    assert app.engine.num_running == 0
