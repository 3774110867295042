"""Forms that strangers send to the dashboard: little or nothing of them is read, so that people do not wait."""

import re

import pytest

from aggregator_server.limits import FORM_BYTES, FORM_FIELDS, STRANGERS_FORM_BYTES
from tests.support.aggregator_process import Aggregator, read_answer
from tests.support.dashboard_visitor import Visitor

# Every address that takes a form, as docs/dashboard.md has its buttons; {} is a number.
DEVICE = f"/fleet/{1:032x}"
FORMS = (
    *("/sign-in", "/sign-out", "/rounds", "/rounds/1/cancel", "/rounds/1/restore"),
    *(f"/classes/c1/{action}" for action in ("rename", "merge", "retire", "approve", "undo/1")),
    *(f"{DEVICE}/{action}" for action in ("admit", "quarantine", "release", "revoke")),
    *("/fleet/admit", "/invitations", "/invitations/1/revoke"),
)


def post(server: Aggregator, path: str, size: int, cookie: str = "", body: bytes = b"") -> tuple[int, str]:
    """Announce a form of a size, send of it what is given, and read the answer."""
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    head += f"Content-Length: {size}\r\n" + (f"Cookie: {cookie}\r\n" if cookie else "") + "\r\n"
    with server.connect() as connection:
        connection.sendall(head.encode() + body)
        status, _, answer = read_answer(connection)
    return status, answer.decode()


def test_these_are_all_addresses_that_take_a_form(aggregator):
    from aggregator_server.web.app import PAGES

    taken = {route.path for page in PAGES for route in page.router.routes if "POST" in getattr(route, "methods", ())}
    patterns = [re.sub(r"\{\w+\}", "[^/]+", path) for path in taken]
    assert all(any(re.fullmatch(pattern, path) for path in FORMS) for pattern in patterns)
    assert all(any(re.fullmatch(pattern, path) for pattern in patterns) for path in FORMS)


@pytest.mark.parametrize("path", FORMS[1:])
@pytest.mark.parametrize("cookie", ["", "auricle=made-up"])
def test_a_stranger_is_answered_before_a_byte_of_the_form_came(aggregator, path, cookie):
    status, _ = post(aggregator, path, STRANGERS_FORM_BYTES, cookie)
    assert status == 303


def test_the_form_for_signing_in_is_small(aggregator):
    fields = b"token="
    status, answer = post(aggregator, "/sign-in", FORM_BYTES, body=fields)
    assert (status, str(STRANGERS_FORM_BYTES) in answer) == (413, True)
    fields += b"x" * (STRANGERS_FORM_BYTES - len(fields))
    assert post(aggregator, "/sign-in", STRANGERS_FORM_BYTES, body=fields)[0] == 401


@pytest.mark.parametrize("separator", [b"&", b"a=&", b"&=&"])
def test_fields_are_counted_before_they_are_parsed(aggregator, separator):
    body = (separator * STRANGERS_FORM_BYTES)[:STRANGERS_FORM_BYTES]
    status, answer = post(aggregator, "/sign-in", STRANGERS_FORM_BYTES, body=body)
    assert (status, f"at most {FORM_FIELDS} fields" in answer) == (422, True)


def test_a_long_address_to_go_on_to_does_not_make_the_form_too_large(aggregator):
    visitor = Visitor(aggregator)
    path = "/sign-in?next=/" + "%22" * 4_000
    assert visitor.post("/sign-in", token="x" * 16, next="/" + '"' * 499).status_code == 401
    assert '"next" value="/"' in visitor.get(path).text
