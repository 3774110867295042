"""Who may open the owner's page: names, tokens, and what it takes to be reachable from elsewhere."""

import socket
from contextlib import ExitStack

import httpx
import pytest

from edge_client.config.sections import UiConfig
from edge_client.owner_page.access import Access, page_token
from fleet_protocol.bundle.ready_bundles import find_bundle
from tests.support.checkout import run_module
from tests.support.edge_process import EdgeDaemon
from tests.support.owner_page import OwnerPage


def test_by_default_this_machine_alone_may_ask_for_it_and_nobody_signs_in():
    access = Access.of(UiConfig(), "aaaa-bbbb")
    assert all(access.knows(host) for host in ("localhost", "LOCALHOST", "127.0.0.1", "::1"))
    assert not any(access.knows(host) for host in ("", "evil.example", "192.168.1.5", "localhost.evil.example"))
    assert not access.sign_in


@pytest.mark.parametrize("insecure", [False, True])
def test_beyond_this_machine_everybody_signs_in_by_tls_unless_somebody_says_otherwise(insecure):
    access = Access.of(UiConfig(host="0.0.0.0", insecure_http=insecure), "a")
    assert access.secure is not insecure
    assert access.sign_in
    assert access.knows("192.168.1.5")
    assert not access.knows("evil.example")  # a name may lead here by DNS rebinding; a number cannot


def test_behind_a_proxy_its_name_is_known_and_everybody_signs_in():
    access = Access.of(UiConfig(names=("Shelf.home.arpa",)), "a")
    assert access.knows("shelf.home.arpa")
    assert not access.knows("192.168.1.5")
    assert access.sign_in


def test_a_token_is_kept_private_can_be_typed_and_is_drawn_anew_on_request(tmp_path):
    token = page_token(tmp_path)
    assert page_token(tmp_path) == token
    assert (tmp_path / "page.key").stat().st_mode & 0o777 == 0o600
    access = Access.of(UiConfig(), token)
    assert access.is_token(token.upper().replace("-", " "))
    assert not access.is_token("")
    assert not access.is_token(token[:-1])
    assert page_token(tmp_path, new=True) != token
    other = Access.of(UiConfig(), page_token(tmp_path))
    assert not other.is_signed(access.sign("session"), "session")
    assert not access.is_signed(access.sign("session"), "csrf")


def test_a_page_that_cannot_be_served_leaves_the_token_as_it_is(tmp_path):
    config = EdgeDaemon(tmp_path, find_bundle("base"), "").config
    token = page_token(tmp_path / "state")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for given, said in ((["--port", str(port)], "cannot listen"), (["--phone"], "a phone cannot reach")):
            done = run_module("edge_client.cli", "ui", "--new-token", "--config", config, *given)
            assert (done.returncode, said in done.stderr) == (1, True), done.stderr
            assert page_token(tmp_path / "state") == token


@pytest.mark.parametrize("content", [b"", b"\n", b"----", b"    ", b"k3vq-52xc-qe7h-ma4", b"\0" * 19, b"\xff" * 19])
def test_a_key_file_that_holds_no_token_lets_nobody_in_and_another_token_is_drawn(tmp_path, content, caplog):
    (tmp_path / "page.key").write_bytes(content)
    token = page_token(tmp_path)
    assert len(token.replace("-", "")) == 16
    assert page_token(tmp_path) == token
    access = Access.of(UiConfig(), token)
    given = content.decode("ascii", "replace")
    assert not any(access.is_token(text) for text in ("", "----", given, given.strip()))
    assert "page.key holds no token of at least 16 letters and digits; another one is drawn" in caplog.text


PLACES = 64
HALF = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture
def page(tmp_path):
    made = OwnerPage(EdgeDaemon(tmp_path, "cnn1", "").config)
    yield made
    assert len(made.end().splitlines()) < 10  # not one for each connection


def test_silent_and_half_sent_connections_and_what_is_no_request_do_not_lock_the_owner_out(page):
    with ExitStack() as opened:
        for data in [b""] * PLACES + [HALF] * PLACES:
            opened.enter_context(page.connect("127.0.0.3", data))
        for _ in range(PLACES):
            one = opened.enter_context(page.connect("127.0.0.3", b"no request\r\n\r\n"))
            assert b"400" in one.recv(1000)
        browser = opened.enter_context(httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.2")))
        assert browser.get(page.url, timeout=180).status_code == 200
