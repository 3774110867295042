"""SECURITY.md against a running server: which addresses are open to everybody, and what every page carries."""

import re

import httpx
import pytest

from aggregator_server.security import Tokens
from aggregator_server.store.opening import open_store
from aggregator_server.web.app import create_app
from tests.support.checkout import ROOT
from tests.support.dashboard_visitor import Visitor

PAGE = ROOT / "SECURITY.md"
# What stands for the parts of an address that are in braces.
PARTS = {"device_id": f"{1:032x}", "sha256": "0" * 64, "name:path": "dashboard.css", "class_id": "c1"}


def routes(folder):
    """Every (method, address) that the application answers, as it was written."""
    store = open_store(folder)
    try:
        app = create_app(store, Tokens("x" * 16, "y" * 16))
        modules = [route for route in app.routes if hasattr(route, "methods")]
        found = {(method, route.path) for route in modules for method in route.methods}
        for included in app.routes:
            router = getattr(included, "original_router", None)
            if router is not None:
                found |= {(method, route.path) for route in router.routes for method in route.methods}
        return {(method, path) for method, path in found if method != "HEAD" or ("GET", path) not in found}
    finally:
        store.close()


def is_open(client, method: str, path: str) -> bool:
    """Say whether a request without token and session gets further than the question who sends it."""
    path = re.sub(r"\{([\w:]+)\}", lambda part: PARTS.get(part[1], "1"), path)
    form = {"next": "/"} if method == "POST" and not path.startswith("/v1/") else None
    response = client.request(method, path, data=form)
    assert response.status_code < 500, (method, path, response.text)
    assert response.status_code not in (405, 422), (method, path, response.text)  # it did not get that far
    asks = response.status_code == 303 and response.headers["location"].startswith("/sign-in")
    return path == "/sign-in" or (response.status_code != 401 and not asks)


def test_every_address_needs_a_token_but_those_that_the_page_lists(start_aggregator, tmp_path):
    server = start_aggregator()
    found = routes(tmp_path / "other")
    assert len(found) > 50
    opened = set()
    with httpx.Client(base_url=server.url, timeout=180, trust_env=False) as client:
        for method, path in sorted(found):
            if is_open(client, method, path):
                opened.add((method, path.replace(":path", "")))
    listed = PAGE.read_text().split("\n## Open to everybody\n")[1].split("\n## ")[0]
    assert opened == set(re.findall(r"`(GET|POST|PUT|PATCH|DELETE) (/[^`]*)`", listed))


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/",
            "/sign-in",
            "/sign-in/once",
            "/rounds",
            "/fleet/none",
            "/audit",
            "/static/dashboard.css",
            "/static/none",
        ),
        "/invitations",
    ],
)
@pytest.mark.parametrize("signed_in", [False, True])
def test_every_page_says_what_a_browser_may_do_with_it(aggregator, path, signed_in):
    visitor = Visitor(aggregator)
    if signed_in:
        visitor.sign_in()
    response = visitor.get(path)
    headers = response.headers
    policy = dict(part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"
    assert path == "/static/dashboard.css" or headers["cache-control"] == "no-store"
    assert "<style>" not in response.text
