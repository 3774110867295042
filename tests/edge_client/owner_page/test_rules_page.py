"""The page Rules beside a real daemon, in Chromium: made, tested and removed; and the way to the first message."""

import json

import httpx
import pytest

from edge_client.rules.owners import RulesOfDevice
from edge_client.storage.database import FILE, Database
from tests.support.edge_process import wait_for
from tests.support.owner_page import page_beside
from tests.support.sounds import write_clips
from tests.support.taught_device import PlayingDaemon

pytestmark = pytest.mark.slow
SECTIONS = """teach_epochs = 8
[detector]
unknown_refractory_s = 1
threshold = 0.5
[clips]
detected_count = 5
[[rules]]
name = "in the file"
labels = ["nothing"]
program = "nothing"
"""


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    device = PlayingDaemon(tmp_path_factory.mktemp("rules") / "shelf", SECTIONS)
    write_clips(device.folder / "recordings", "yes", 6, seed=9)
    device.start()
    with page_beside(device) as device.ui:
        yield device


def made(page, label, way, address):
    page.get_by_label("When it hears", exact=True).select_option(label)
    page.get_by_label("Tell", exact=True).select_option(way)
    page.get_by_label("Address").fill(address)
    page.get_by_role("button", name="Add").click()


def test_a_rule_is_made_tested_and_removed(shelf, page, receiver):
    page.goto(f"{shelf.ui.url}/rules")
    assert page.locator(".rule").count() == 1  # the file's, which the page cannot remove
    assert page.get_by_role("button", name="Remove").count() == 0
    made(page, "unknown", "webhook", f"{receiver.url}/secret")
    rule = page.locator(".rule", has_text="unknown")
    rule.wait_for()
    assert "/secret" not in page.content()
    wait_for(lambda: receiver.requests, what="a message of an unknown sound")
    assert receiver.documents[0]["rule"] == "unknown"
    rule.get_by_role("button", name="Test").click()
    page.get_by_text("Done: webhook.").wait_for()
    assert any(document.get("test") for document in receiver.documents)
    # The command knows it too, and so does the next start of the daemon.
    listed = json.loads(shelf.command("rules", "--json").stdout)["rules"]
    assert [one["name"] for one in listed] == ["in the file", "unknown"]
    rule.get_by_role("button", name="Remove").click()
    rule.wait_for(state="detached")
    assert list(RulesOfDevice((), Database(shelf.state / FILE)).now()) == []


@pytest.mark.parametrize(
    ("name", "way", "address", "told", "home"),
    [
        ("in the file", "webhook", "https://h.example/x", "there is a rule 'in the file' already", ""),
        ("a", "webhook", "file:///etc/passwd", "must be like https://host/path", ""),
        ("a", "webhook", "http://h.example/x", "is plain HTTP", ""),
        ("a", "notify", "no address", "must be at most 20 addresses of Apprise", ""),
        ("a", "program", "sh", "a rule tells by notify, webhook, mqtt", ""),
        ("", "webhook", "https://h.example/x", "must have 1 to 100 printable characters", ""),
        ("a", "webhook", "https://h.example/x", "the rule 'a' is of the home; add [home] name", "yes"),
    ],
)
def test_what_a_rule_cannot_be_is_refused_in_words(shelf, page, name, way, address, told, home):
    page.goto(f"{shelf.ui.url}/rules")
    token = page.locator("meta[name=csrf-token]").get_attribute("content")
    fields = {"name": name, "way": way, "address": address, "label": "unknown", "home": home}
    answer = httpx.post(
        f"{shelf.ui.url}/rules/add", data=fields, headers={"x-csrf-token": token, "origin": shelf.ui.url}, timeout=180
    )
    assert answer.status_code == 409, answer.text
    assert told in answer.json()["error"]
    assert list(RulesOfDevice((), Database(shelf.state / FILE)).now()) == []


def test_no_other_site_makes_a_rule(shelf):
    fields = {"name": "a", "way": "webhook", "address": "https://h.example/x"}
    answer = httpx.post(
        f"{shelf.ui.url}/rules/add", data=fields, headers={"origin": "https://evil.example"}, timeout=180
    )
    assert answer.status_code == 403


def test_from_an_unknown_sound_to_a_message_about_the_next_one_it_takes_four_clicks(shelf, page, receiver):
    clicks = 0
    page.goto(shelf.ui.url)
    unknown = page.locator(".event", has_text="Unknown sound").filter(has=page.locator("[data-play]")).first
    unknown.get_by_role("button", name="Name the sound of").click()
    clicks += 1
    page.locator("input:focus").wait_for()
    page.keyboard.type("kettle")
    page.keyboard.press("Enter")
    wait_for(lambda: "kettle" in shelf.labels(), what="the sound learned")
    page.get_by_role("link", name="Rules").click()
    page.wait_for_url("**/rules")  # with its scripts
    clicks += 1
    page.get_by_label("When it hears", exact=True).select_option("kettle")
    clicks += 1
    page.get_by_label("Tell", exact=True).select_option(
        "webhook"
    )  # a phone's address stands there first; this is the test's
    page.get_by_label("Address").fill(receiver.url)
    page.get_by_role("button", name="Add").click()
    clicks += 1
    told = wait_for(lambda: receiver.documents, what="a message about the next one")
    assert told[0]["label"] == "kettle"
    assert clicks <= 4
