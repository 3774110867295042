"""The owner's page behind a proxy that signs people in and puts it below a path of its own, as Home Assistant's."""

import re
from urllib.parse import urljoin

import httpx
import pytest

from edge_client.config import load_config
from edge_client.errors import ConfigError
from tests.support.edge_process import EdgeDaemon
from tests.support.ingress import ADDRESS, PREFIX, Ingress
from tests.support.owner_page import OwnerPage

LINK = re.compile(r'(?:href|src|action|data-play)="([^"#]+)"')


def configuration(folder, proxy=ADDRESS):
    return EdgeDaemon(folder, "cnn1", f'[ui]\nhost = "0.0.0.0"\nproxy = "{proxy}"\n').config


@pytest.fixture
def ui(tmp_path):
    made = OwnerPage(configuration(tmp_path))
    yield made
    made.end()


@pytest.fixture
def proxy(ui):
    with Ingress(int(ui.url.rpartition(":")[2])) as one:
        yield one


@pytest.fixture
def browser():
    with httpx.Client(timeout=180, headers={"Accept": "text/html"}) as client:
        yield client


def test_all_links_stay_below_the_path_of_the_proxy_and_lead_somewhere(proxy, browser):
    asked, waiting = set(), {proxy.url}
    while waiting:
        address = waiting.pop()
        asked.add(address)
        answer = browser.get(address)
        assert answer.status_code == 200, address
        if answer.headers["content-type"].startswith("text/html"):
            found = {urljoin(address, link) for link in LINK.findall(answer.text)}
            assert all(link.startswith(proxy.url) for link in found), found
            waiting |= found - asked
    assert {proxy.url + name for name in ("", "teach", "sounds", "static/page.css", "static/listen.js")} <= asked
    assert "frame-ancestors 'self'" in browser.get(proxy.url).headers["content-security-policy"]
    for path in ("", "teach", "sounds"):  # the path that the proxy names is written nowhere
        assert PREFIX not in browser.get(proxy.url + path, headers={"X-Ingress-Path": '/"><script>'}).text
    with browser.stream("GET", f"{proxy.url}live") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert next(answer.iter_lines()).startswith("event:")


def test_the_owner_changes_things_without_a_sign_in_and_other_sites_cannot(proxy, browser):
    token = re.search(r'csrf-token" content="(\w+)"', browser.get(proxy.url).text)[1]

    def keep(**headers):
        return browser.post(f"{proxy.url}heard/keep", data={"keep": "on"}, headers=headers)

    own = {"Origin": proxy.origin, "X-CSRF-Token": token}
    assert "keeps what it detects" in keep(**own).json()["message"]
    assert keep(**own | {"Origin": "http://evil.example"}).status_code == 403
    assert keep(Origin=proxy.origin).status_code == 403
    # Where TLS ends before it, the proxy says under which name the browser asked.
    beyond = {"Origin": "https://home.example", "X-Forwarded-Host": "home.example"}
    assert keep(**own | beyond).status_code == 200


def test_nobody_but_the_proxy_is_let_in_whatever_he_says(ui):
    address = ui.url.replace("0.0.0.0", "127.0.0.1")
    said = {"X-Ingress-Path": PREFIX, "X-Forwarded-For": ADDRESS, "X-Real-IP": ADDRESS, "Forwarded": f"for={ADDRESS}"}
    for path in ("/", "/static/page.css", "/sign-in", "/live", "/heard/keep"):
        for headers in ({}, said, said | {"Host": ADDRESS}):
            for method in ("GET", "POST"):
                answer = httpx.request(method, address + path, headers=headers, timeout=180)
                assert answer.status_code == 403, (path, headers)
                assert "csrf" not in answer.text


def test_the_proxy_is_an_address(tmp_path):
    for wrong in ("supervisor", "172.30.32.0/24", "172.30.32.2:80"):
        with pytest.raises(ConfigError, match="must be an IP address"):
            load_config(configuration(tmp_path, wrong))
