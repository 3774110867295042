"""Times in the browser's zone, and errors as people read them."""

import re

import pytest

from tests.support.dashboard_visitor import Visitor, sign_in

BROWSER = {"Accept": "text/html,application/xhtml+xml"}


@pytest.fixture
def visitor(aggregator):
    visitor = Visitor(aggregator, **BROWSER)
    visitor.sign_in()
    return visitor


def test_times_are_those_of_the_browser_s_zone_and_stay_so_in_live_parts(browser, aggregator):
    context = browser.new_context(timezone_id="Asia/Kathmandu")
    context.set_default_timeout(180_000)
    page = context.new_page()
    sign_in(page, aggregator.url)
    page.get_by_text("Times are in your time zone, Asia/Kat").wait_for()
    page.goto(f"{aggregator.url}/audit")
    time = page.locator("td time").first
    shown, tip, moment = time.inner_text(), time.get_attribute("title"), time.get_attribute("datetime")
    expected = page.evaluate(
        "(text) => new Date(text).toLocaleString('en', { dateStyle: 'medium', timeStyle: 'short', "
        "timeZone: 'Asia/Kathmandu' })",
        moment,
    )
    assert shown == expected
    assert tip.endswith("UTC")
    page.evaluate("document.querySelector('td time').textContent = 'replaced'")
    page.wait_for_function("(text) => document.querySelector('td time').textContent === text", arg=expected)
    context.close()


def test_without_scripts_times_stand_in_utc(visitor):
    page = visitor.get("/audit").text
    assert re.search(r"<time[^>]*>\d{4}-\d\d-\d\d \d\d:\d\d UTC</time>", page)
    assert "Times are in UTC." in page


def test_a_browser_gets_a_page_where_there_is_none_and_programs_get_json(visitor):
    page = visitor.get("/nothing/here")
    assert page.status_code == 404
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "There is no page at this address." in page.text
    programs = (("/nothing/here", "*/*"), ("/v1/nothing", BROWSER["Accept"]), ("/nothing", "application/json"))
    for path, accept in programs:
        assert visitor.get(path, headers={"Accept": accept}).json()["error"]["code"] == "not_found"
    assert visitor.get("/sign-out").status_code == 405
    assert "Go back" in visitor.get("/sign-out").text
    too_large = visitor.client.post("/sign-in", data={"token": 70_000 * "x"})
    assert too_large.status_code == 413
    assert "<h1>" in too_large.text


def test_errors_are_in_plain_words_and_the_form_keeps_what_was_typed(visitor):
    taken = visitor.post("/classes/c1/rename", name="stop")
    assert taken.status_code == 409
    assert "choose another name" in taken.text
    assert 'name="name" value="stop"' in taken.text
    opened = visitor.post("/rounds", strategy="zero_shot")
    assert opened.status_code == 409
    assert re.search(r"Round \d+ is open", opened.text)
    assert 'name="strategy"' in opened.text  # the form again, not only a message
    unknown = visitor.get(f"/fleet/{77:032x}")
    invited = visitor.post("/invitations", hours="soon", group="attic", devices="3")
    assert 'value="soon"' in invited.text
    assert 'value="attic"' in invited.text
    quarantined = visitor.post(f"/fleet/{1:032x}/quarantine", reason="x" * 201)
    assert quarantined.status_code == 422
    assert "x" * 201 in quarantined.text
    for page in (taken, opened, unknown, invited, quarantined):
        assert not re.search(r"(GET|POST|PUT|DELETE) /|/v1/", re.sub(r"<footer.*", "", page.text, flags=re.DOTALL))
