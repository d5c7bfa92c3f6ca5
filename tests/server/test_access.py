"""Who may call: credentials, XSRF, the authorizer, and a server behind a prefix."""

import json
import logging

import pytest
from jupyter_server.auth import Authorizer
from tornado.httpclient import HTTPClientError

ENDPOINTS = [
    ("POST", "fill"),
    ("DELETE", "fill/r1"),
    ("GET", "providers"),
    ("GET", "status"),
    ("GET", "consent?notebook_path=a.ipynb"),
    ("POST", "consent"),
]


async def call(http_server_client, jp_base_url, method, path, body=None, headers=None):
    url = f"{jp_base_url}jupyt5/api/{path}"
    payload = body if method == "POST" else None
    return await http_server_client.fetch(
        url, method=method, body=payload, headers=headers or {}, raise_error=False
    )


@pytest.mark.parametrize(("method", "path"), ENDPOINTS)
async def test_no_credentials(app, http_server_client, jp_base_url, body, method, path):
    response = await call(http_server_client, jp_base_url, method, path, body())
    assert response.code == 403
    assert "message" in json.loads(response.body)


async def log_in(http_server_client, jp_base_url, token):
    """Log in with a cookie, as a page does; return the cookie header and the XSRF token."""
    pairs: list[str] = []
    for query in ["", f"?token={token}"]:  # the login page brings _xsrf, the token the cookie
        response = await http_server_client.fetch(
            f"{jp_base_url}login{query}", follow_redirects=False, raise_error=False
        )
        pairs += [each.split(";")[0] for each in response.headers.get_list("Set-Cookie")]
    return "; ".join(pairs), dict(pair.split("=", 1) for pair in pairs)["_xsrf"]


async def test_cookie_needs_xsrf(app, http_server_client, jp_base_url, body, jp_serverapp):
    token = jp_serverapp.identity_provider.token
    cookie, xsrf = await log_in(http_server_client, jp_base_url, token)
    without = await call(
        http_server_client, jp_base_url, "POST", "fill", body(), {"Cookie": cookie}
    )
    assert without.code == 403
    headers = {"Cookie": cookie, "X-XSRFToken": xsrf}
    with_it = await call(http_server_client, jp_base_url, "POST", "fill", body(), headers)
    assert with_it.code == 200
    assert json.loads(with_it.body.splitlines()[-1])["type"] == "done"


@pytest.mark.parametrize(("method", "path"), ENDPOINTS)
async def test_a_page_of_another_site_is_refused(
    app, http_server_client, jp_base_url, body, jp_serverapp, method, path
):
    cookie, xsrf = await log_in(
        http_server_client, jp_base_url, jp_serverapp.identity_provider.token
    )
    headers = {"Cookie": cookie, "X-XSRFToken": xsrf, "Origin": "http://evil.example"}
    payload = body(allowed=True)
    refused = await call(http_server_client, jp_base_url, method, path, payload, headers)
    assert refused.code == 403
    assert "evil.example" in json.loads(refused.body)["message"]
    own = await call(
        http_server_client,
        jp_base_url,
        method,
        path,
        payload,
        headers | {"Origin": f"http://127.0.0.1:{jp_serverapp.port}"},
    )
    assert own.code == 200


async def test_token_needs_no_xsrf(app, http_server_client, jp_base_url, jp_auth_header, body):
    response = await call(http_server_client, jp_base_url, "POST", "fill", body(), jp_auth_header)
    assert response.code == 200


class DenyExecute(Authorizer):
    """Allows everything but to execute on our resource."""

    def is_authorized(self, handler, user, action, resource):
        return not (action == "execute" and resource == "jupyt5")


class TestAuthorizer:
    @pytest.fixture
    def jp_server_config(self, jp_server_config):
        jp_server_config["ServerApp"]["authorizer_class"] = DenyExecute
        return jp_server_config

    async def test_denied(self, jp_fetch, body):
        with pytest.raises(HTTPClientError, match="403"):
            await jp_fetch("jupyt5", "api", "fill", method="POST", body=body())
        with pytest.raises(HTTPClientError, match="403"):
            await jp_fetch("jupyt5", "api", "fill", "r1", method="DELETE")
        assert (await jp_fetch("jupyt5", "api", "status")).code == 200


class TestBehindPrefix:
    @pytest.fixture
    def jp_base_url(self):
        return "/user/ana/"

    async def test_all_endpoints(self, jp_serverapp, http_server_client, jp_auth_header, body):
        assert jp_serverapp.base_url == "/user/ana/"
        payload = body(allowed=True)
        for method, path in ENDPOINTS:
            response = await call(
                http_server_client, "/user/ana/", method, path, payload, jp_auth_header
            )
            assert response.code == 200, path
            missing = await call(http_server_client, "/", method, path, payload, jp_auth_header)
            assert missing.code == 404, path


class TestAuthenticatedOnly:
    @pytest.fixture
    def jp_server_config(self, jp_server_config):
        jp_server_config["ServerApp"]["allow_unauthenticated_access"] = False
        return jp_server_config

    async def test_no_missing_decorator(self, jp_serverapp, caplog):
        assert "jupyt5" not in " ".join(
            record.getMessage()
            for record in caplog.get_records("setup")
            if record.levelno >= logging.WARNING
        )


async def test_token_is_in_no_log_line(fill, app, jp_serverapp, caplog):
    caplog.set_level(logging.DEBUG)
    await fill(provider="fake:fail")
    await fill(request_id="r2", language="R")
    assert jp_serverapp.identity_provider.token not in caplog.text
