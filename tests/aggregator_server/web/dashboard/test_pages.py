"""The pages in a browser: the paths that a person takes, at every width, in light and dark, and without scripts."""

from urllib.parse import urlsplit

import pytest

from tests.support.aggregator_process import ADMIN, Fleet
from tests.support.commands import answer
from tests.support.dashboard_visitor import PAGES, sign_in
from tests.support.pictured_fleet import HOSTILE, device_of
from tests.support.state_servers import options_of

OTHER_PAGES = (f"/fleet/{90:032x}", "/rounds/999", "/sign-in/once")
VIEWS = (("light", 1200), ("dark", 375))  # colours do not depend on the width


def violations(page):
    from axe_playwright_python.sync_playwright import Axe

    return [
        f"{found['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for found in Axe().run(page).response["violations"]
        for node in found["nodes"]
    ]


def look(page):
    """What is wrong with a page in every view: rules of accessibility that are broken, and what is too wide."""
    found = {}
    for scheme, width in VIEWS:
        page.emulate_media(color_scheme=scheme)
        found[scheme, width] = too_wide(page, width) + violations(page)
    found["tablet"] = too_wide(page, 960)
    return {view: problems for view, problems in found.items() if problems}


def too_wide(page, width):
    """The parts of a page that are wider than there is room for; tables that scroll by themselves are none."""
    page.set_viewport_size({"width": width, "height": 800})
    return page.evaluate(
        """[document.documentElement, ...document.querySelectorAll("section, header, form")]
        .filter((item) => item.scrollWidth > item.clientWidth + 1 && item.clientWidth > 0)
        .map((item) => `${item.tagName}: ${item.scrollWidth} of ${item.clientWidth} pixels`)"""
    )


@pytest.mark.slow
def test_a_link_signs_in_once_whoever_is_signed_in_and_the_address_forgets_it(page, aggregator):
    def link():
        given = ("--data", aggregator.data, *options_of(aggregator.data))
        return answer("tokens", "link", *given, **aggregator.tokens)["link"]

    used = link()
    for address in (used, link()):
        page.goto(address)
        page.get_by_role("heading", name="Overview").wait_for()
        assert page.url == f"{aggregator.url}/"
    page.goto(used)
    page.get_by_text("This link was used").wait_for()
    assert "aur_" not in page.url
    page.goto(aggregator.url)  # the session of the second one goes on
    page.get_by_role("heading", name="Overview").wait_for()
    other = link()
    page.route(
        "http://other.example/",
        lambda route: route.fulfill(body=f"<a href='{other}'>open</a>", content_type="text/html"),
    )
    page.goto("http://other.example/")
    page.get_by_text("open").click()
    page.wait_for_url(f"{aggregator.url}/sign-in/once")
    page.get_by_role("button", name="Sign in").click()  # which another site cannot press
    page.get_by_role("heading", name="Overview").wait_for()


@pytest.mark.slow
def test_every_page_can_be_read_by_everybody_at_every_width_in_light_and_dark(page, aggregator):
    hosts = set()  # that the page asked
    page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
    page.goto(aggregator.url)
    problems = {"/sign-in": look(page)}
    sign_in(page, aggregator.url)
    for path in (*PAGES, *OTHER_PAGES):
        page.goto(aggregator.url + path)
        page.evaluate("document.querySelectorAll('details').forEach((item) => { item.open = true; })")
        problems[path] = look(page)
    page.goto(f"{aggregator.url}/invitations")
    page.get_by_role("button", name="Make an invitation").click()
    page.locator("svg.code").wait_for()
    problems["a new invitation"] = look(page)
    assert {path: found for path, found in problems.items() if found} == {}
    assert hosts == {urlsplit(aggregator.url).netloc}


@pytest.mark.slow
def test_a_person_who_looks_at_a_round_sees_it_end_and_devices_come_in_without_a_reload(page, aggregator):
    sign_in(page, aggregator.url)
    fleet = Fleet(aggregator, [*map(device_of, range(1, 6))])
    page.get_by_role("link", name="Overview").click()
    page.get_by_role("link", name="round 6", exact=True).click()
    page.get_by_text("3 of 5 devices are in, 2 late").wait_for()
    page.get_by_text("Cancel this round").click()
    page.get_by_role("button", name="Cancel round 6").click()
    page.get_by_text("The round was cancelled.").wait_for()
    page.get_by_text("This round was cancelled by").wait_for()
    page.get_by_role("link", name="Rounds", exact=True).first.click()
    page.get_by_role("link", name="Start a round").click()
    assert page.get_by_role("radio", name="zero_shot").is_checked()
    for device in fleet.devices:  # so that the round leaves none out, however long this took
        assert fleet.work(device, wait_s=0) is None
    page.get_by_role("button", name="Start the round").click()
    page.get_by_text("The round was started.").wait_for()
    page.get_by_text("0 of 5 devices are in").wait_for()
    round_id = int(page.url.partition("?")[0].rpartition("/")[2])
    works = [fleet.contribution(device) for device in fleet.devices]
    for count, (device, work) in enumerate(zip(fleet.devices, works, strict=True), start=1):
        fleet.upload(device, work).raise_for_status()
        if count == 1:
            page.get_by_text("1 of 5 devices are in").wait_for()
    page.locator(".badge.good", has_text="done").wait_for()
    assert fleet.work(fleet.devices[0])["kind"] == "learn"
    fleet.learned(fleet.devices[0], round_id).raise_for_status()
    page.get_by_text("1 took the result").wait_for()
    fleet.close()


def test_the_keyboard_is_enough(page, aggregator):
    page.goto(aggregator.url)
    page.locator("#token:focus").wait_for()
    page.keyboard.type(ADMIN)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Overview").wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the content"
    reached = []
    for _ in range(8):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.textContent.trim()"))
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid", reached
    pages = ["Overview", "Fleet", "Rounds", "Classes", "Audit", "Invitations"]
    assert reached == ["Auricle", *pages, "Sign out"]
    page.keyboard.press("Enter")
    page.get_by_text("You are signed out.").wait_for()


def test_a_hostile_name_runs_nothing(page, aggregator):
    dialogs = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    sign_in(page, aggregator.url)
    for path in ("/fleet", f"/fleet/{90:032x}", "/audit"):
        page.goto(aggregator.url + path)
        page.get_by_text(HOSTILE).first.wait_for()
    assert dialogs == []
    assert page.locator("img").count() == 0


def test_the_chart_shows_what_the_table_says(page, aggregator):
    sign_in(page, aggregator.url)
    page.locator(".chart canvas").wait_for()
    legend = page.locator(".u-legend")
    lines = [text.strip() for text in legend.locator(".u-label").all_inner_texts()]
    # A line for each strategy and kind of recordings: what the rows of the table say, which other tests add to.
    rows = page.locator("figure tbody tr").all()
    named = {row.get_attribute(f"data-{of}-line") for row in rows for of in ("own", "public")} - {None, ""}
    assert sorted(lines[1:-1]) == sorted(named)
    assert named >= {
        "own held-out clips, zero_shot",
        "every public recording, zero_shot",  # of the first round alone: no line joins it with the next
        "public recordings, zero_shot",
    }
    assert (lines[0], lines[-1]) == ("round", "classes")
    page.get_by_text("Figures as a table").click()
    last = page.locator("figure tbody tr").last
    figures = [cell.inner_text() for cell in last.locator("td").all()]
    assert figures[1] in legend.inner_text()
    assert figures[3] in legend.inner_text()
