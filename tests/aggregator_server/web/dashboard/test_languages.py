"""The pages in each language, times in the browser's zone, and errors as people read them."""

import re

import pytest

from aggregator_server.web.dashboard.languages import LANGUAGES
from tests.aggregator_server.web.dashboard.test_pages import too_wide, violations
from tests.support.aggregator_process import ADMIN
from tests.support.dashboard_visitor import PAGES, Visitor

BROWSER = {"Accept": "text/html,application/xhtml+xml"}


@pytest.fixture
def visitor(aggregator):
    visitor = Visitor(aggregator, **BROWSER)
    visitor.sign_in()
    yield visitor
    visitor.close()


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ("de-AT,de;q=0.9,en;q=0.5", "de"),
        ("ja, fr;q=0.3, en;q=0.2", "fr"),
        ("en;q=0.1, de;q=0", "en"),
        ("ja", "en"),
        ("de;q=nonsense, fr", "fr"),
        ("*", "en"),
        ("x" * 9_000, "en"),
        (",;q=," * 500, "en"),
        ("", "en"),
    ],
)
def test_a_page_speaks_what_the_browser_asks_for(visitor, asked, code):
    page = visitor.get("/sign-in?next=/", headers={"Accept-Language": asked}, follow_redirects=True)
    assert f'<html lang="{code}">' in page.text


def test_a_language_that_was_chosen_stays(visitor):
    answer = visitor.client.post("/language", data={"language": "de", "next": "/fleet?sort=name"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/fleet?sort=name")
    page = visitor.get("/fleet", headers={"Accept-Language": "fr"}).text
    assert '<html lang="de">' in page
    assert "In Quarantäne setzen" in page


def test_a_choice_leads_nowhere_else_and_knows_its_languages(visitor):
    away = visitor.client.post("/language", data={"language": "fr", "next": "//example.org"})
    assert away.headers["location"] == "/"
    for fields in ({"language": "../../x"}, {}):
        assert visitor.client.post("/language", data=fields).status_code == 404
    foreign = {"Origin": "https://example.org"}
    assert visitor.client.post("/language", data={"language": "fr"}, headers=foreign).status_code == 403


def test_numbers_are_written_and_read_as_the_language_does(visitor):
    page = visitor.get("/", headers={"Accept-Language": "de"}).text
    assert re.search(r"\d,\d %", page)
    made = visitor.post("/invitations", "/invitations", hours="0,5", devices="1", url="http://192.0.2.1:8470")
    assert made.status_code == 422  # English: 0,5 is no number
    visitor.client.post("/language", data={"language": "de"})
    made = visitor.post("/invitations", "/invitations", hours="0,5", devices="1", url="http://192.0.2.1:8470")
    assert made.status_code == 200
    assert "Sie lässt bis" in made.text


@pytest.mark.slow
@pytest.mark.parametrize("code", [code for code in LANGUAGES if code != "en"])
def test_everybody_can_read_every_page_in_each_language(browser, aggregator, code):
    context = browser.new_context(locale=code)
    context.set_default_timeout(180_000)
    page = context.new_page()
    page.goto(aggregator.url)
    problems = {"/sign-in": too_wide(page, 375)}
    page.locator("#token").fill(ADMIN)
    page.keyboard.press("Enter")
    page.locator("nav").wait_for()
    for path in PAGES:
        page.goto(aggregator.url + path)
        assert page.locator("html").get_attribute("lang") == code
        page.evaluate("document.querySelectorAll('details').forEach((item) => { item.open = true; })")
        problems[path] = too_wide(page, 1200) + too_wide(page, 375) + violations(page)
    context.close()
    assert {path: found for path, found in problems.items() if found} == {}


def test_times_are_those_of_the_browser_s_zone_and_stay_so_in_live_parts(browser, aggregator):
    context = browser.new_context(locale="de", timezone_id="Asia/Kathmandu")
    context.set_default_timeout(180_000)
    page = context.new_page()
    page.goto(aggregator.url)
    page.locator("#token").fill(ADMIN)
    page.keyboard.press("Enter")
    page.get_by_text("Zeiten stehen in Ihrer Zeitzone, Asia/Kat").wait_for()
    page.goto(f"{aggregator.url}/audit")
    time = page.locator("td time").first
    shown, tip, moment = time.inner_text(), time.get_attribute("title"), time.get_attribute("datetime")
    expected = page.evaluate(
        "(text) => new Date(text).toLocaleString('de', { dateStyle: 'medium', timeStyle: 'short', "
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
    page = visitor.get("/nothing/here", headers={"Accept-Language": "fr"})
    assert page.status_code == 404
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "pas de page à cette adresse." in page.text
    programs = (("/nothing/here", "*/*"), ("/v1/nothing", BROWSER["Accept"]), ("/nothing", "application/json"))
    for path, accept in programs:
        assert visitor.get(path, headers={"Accept": accept}).json()["error"]["code"] == "not_found"
    assert visitor.get("/sign-out").status_code == 405
    assert "Go back" in visitor.get("/sign-out").text
    too_large = visitor.client.post("/sign-in", data={"token": 70_000 * "x"})
    assert too_large.status_code == 413
    assert "<h1>" in too_large.text


def test_errors_are_in_plain_words_and_the_form_keeps_what_was_typed(visitor):
    taken = visitor.post("/classes/c1/rename", "/classes/c1", name="stop")
    assert taken.status_code == 409
    assert "Another class has that name." in taken.text
    assert "is called" not in taken.text
    assert 'name="name" value="stop"' in taken.text
    opened = visitor.post("/rounds", "/rounds/new", strategy="zero_shot")
    assert opened.status_code == 409
    assert "A round is open." in opened.text
    unknown = visitor.get(f"/fleet/{77:032x}")
    invited = visitor.post("/invitations", "/invitations", hours="soon", group="attic", devices="3")
    assert 'value="soon"' in invited.text
    assert 'value="attic"' in invited.text
    quarantined = visitor.post(f"/fleet/{1:032x}/quarantine", f"/fleet/{1:032x}", reason="x" * 201)
    assert quarantined.status_code == 422
    assert "x" * 201 in quarantined.text
    for page in (taken, opened, unknown, invited, quarantined):
        assert not re.search(r"(GET|POST|PUT|DELETE) /|/v1/", re.sub(r"<footer.*", "", page.text, flags=re.DOTALL))
