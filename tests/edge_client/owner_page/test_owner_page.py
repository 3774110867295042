"""The owner's page beside a real daemon with a real microphone, as its owner uses it in Chromium."""

import os
import re
from datetime import UTC, datetime

import httpx
import numpy as np
import pytest

from aggregator_server import tls
from edge_client.clips.folders import clip_files
from tests.support.checkout import run_module
from tests.support.edge_process import EdgeDaemon, wait_for
from tests.support.owner_page import OwnerPage, page_beside
from tests.support.sound_server import quiet_room, said
from tests.support.sounds import write_clips

pytestmark = pytest.mark.slow

# What the melodies of tests/support/sounds.py stand for here.
NAMES = {"yes": "kettle", "up": "<b>doorbell", "stop": "smoke alarm"}
SECTIONS = """
[microphone]
device = "shelf_microphone"
silent_s = 60
[training]
teach_epochs = 8
nice = 0
[detector]
unknown_refractory_s = 1.0
threshold = 0.5
[clips]
detected_count = 20
"""
# What a session says until a sound comes; a busy browser may leave out the first of it.
RECORDING = re.compile("Please be quiet|get ready|Make the sound")


class Shelf(EdgeDaemon):
    """A device that knows three sounds, and what is played to it."""

    def __init__(self, folder, sound_server):
        super().__init__(folder / "shelf", "base", SECTIONS)
        self.sounds, self.rng = sound_server, np.random.default_rng(7)
        self.clips = self.state / "clips"
        for label, name in NAMES.items():
            write_clips(self.clips, label, 8, seed=3, name=name)
        sound_server.play_on(quiet_room(self.rng))

    def play_until(self, label, heard):
        self.sounds.play_until(lambda: said(label, self.rng), heard, label)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory, _running_sound_server):
    one = Shelf(tmp_path_factory.mktemp("page"), _running_sound_server)
    try:
        with page_beside(one.start(dict(os.environ))) as one.ui:
            wait_for(lambda: set(NAMES.values()) <= one.labels())
            yield one
    finally:
        _running_sound_server.silence()


@pytest.fixture
def opened(page, shelf):
    """The live page; nothing that it does may ask another host for anything."""
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(shelf.ui.url)
    page.locator("#state[data-state=on]").wait_for()
    yield page
    assert [url for url in asked if not url.startswith(f"{shelf.ui.url}/")] == []


def row(page, text):
    """The newest event of which something is kept and nothing was said."""
    return page.locator(".event", has_text=text).filter(has=page.locator("[data-play]")).first


def test_he_sees_the_level_move_and_an_event_plays_and_confirms_it(opened, shelf):
    fill = opened.locator("#level .bar-fill")
    quiet = fill.bounding_box()["width"]
    shelf.play_until("yes", lambda: fill.bounding_box()["width"] > 2 * quiet)
    event = row(opened, "kettle")
    shelf.play_until("yes", event.is_visible)
    with opened.expect_response("**/heard/detected/*.wav") as sound:
        event.locator("[data-play]").click()
    assert sound.value.headers["content-type"] == "audio/wav"
    assert sound.value.status in (200, 206)
    event.locator("[data-play]").click()  # no longer
    before = shelf.count("clips/kettle")
    event.get_by_role("button", name="Yes, kettle").click()
    opened.locator("#told", has_text="Thank you.").wait_for()
    assert shelf.count("clips/kettle") == before + 1


def test_names_of_sounds_are_text_and_never_a_part_of_the_page(opened, shelf):
    shelf.play_until("up", row(opened, "<b>doorbell").is_visible)
    opened.locator(".score-name", has_text="<b>doorbell").wait_for()
    opened.goto(f"{shelf.ui.url}/sounds")
    opened.get_by_role("heading", name="<b>doorbell").wait_for()
    assert opened.locator("main b").count() == 0


def test_he_corrects_an_event_and_says_what_another_is_not(opened, shelf):
    # Both are heard first: what is said of one of them is learned, and the other might be heard as something else then.
    events = opened.locator(".event", has_text="smoke alarm").filter(has=opened.locator("[data-play]"))
    for number in range(2):
        shelf.play_until("stop", lambda number=number: events.count() > number)
    event = row(opened, "smoke alarm")
    event.get_by_role("button", name="but something else").click()
    event.locator("input:focus").wait_for()
    opened.keyboard.type("kettle")
    before = shelf.count("clips/kettle")
    opened.keyboard.press("Enter")
    wait_for(lambda: shelf.count("clips/kettle") == before + 1)
    event = row(opened, "smoke alarm")
    event.get_by_role("button", name="That was wrong").click()
    wait_for(lambda: shelf.count("clips/_not_/smoke alarm") == 1)
    # Both were heard wrongly, and the page says what came of the promise.
    wait_for(lambda: shelf.status()["room"]["labels"].get("smoke alarm", {}).get("wrong") == 2)
    opened.reload()
    opened.locator("#promise summary", has_text="Each sound may give 1 false alarm an hour").click()
    opened.locator("#promise li", has_text="smoke alarm").filter(has_text="you called 2 of them wrong").wait_for()


def test_he_teaches_a_sound_in_a_guided_session_and_it_is_heard(opened, shelf):
    opened.get_by_role("link", name="Teach", exact=True).click()
    opened.wait_for_url("**/teach")  # with its scripts
    opened.get_by_label("What is the sound called?").fill("whistle")
    opened.locator("input[name=count]").first.evaluate("field => { field.value = 3; field.checked = true }")
    opened.get_by_role("button", name="Start").click()
    opened.locator("#big:not([data-kind=room])").wait_for()  # the room was heard: it is quiet
    whistling = shelf.sounds.play_on(np.concatenate([said("down", shelf.rng) for _ in range(8)]))
    opened.locator("#kept", has_text="3 takes of whistle").wait_for()
    whistling.kill()
    assert opened.locator("#takes li.done").count() == 3
    opened.locator("#learned[data-state=done]", has_text="listens for whistle now").wait_for()
    opened.locator("#after-advice", has_text="Record more takes of 'whistle': 3 are few").wait_for()

    heard = opened.locator("#tried[data-state=done]", has_text="Heard: whistle")
    shelf.play_until("down", lambda: heard.count() == 1)


def test_a_session_ends_with_its_page_and_the_daemon_gets_the_microphone_back(opened, shelf):
    opened.goto(f"{shelf.ui.url}/teach?label=never")
    opened.get_by_role("button", name="Start").click()
    opened.locator("#step", has_text=RECORDING).wait_for()
    opened.get_by_role("button", name="Stop").click()
    opened.locator("#kept", has_text="No take was kept").wait_for()
    opened.get_by_role("button", name="Teach another").click()
    opened.get_by_label("What is the sound called?").fill("never")
    opened.get_by_role("button", name="Start").click()
    opened.locator("#step", has_text=RECORDING).wait_for()
    back = shelf.log().count("took the microphone back")
    opened.goto(f"{shelf.ui.url}/")
    wait_for(lambda: shelf.log().count("took the microphone back") > back)
    opened.locator("#state[data-state=on]").wait_for()


def test_a_button_of_every_page_closes_the_microphone_and_says_what_others_did(opened, shelf):
    state = opened.locator("#pausing-state")
    assert state.inner_text() == ""
    opened.get_by_label("Pause for how long").select_option("for 2 hours")
    opened.get_by_role("button", name="Pause listening").focus()
    opened.keyboard.press("Enter")
    opened.get_by_role("button", name="Listen again").wait_for()
    assert shelf.status()["paused"]["closed"]
    assert re.match(r"Paused since .* until .* by the owner's page", state.inner_text())
    opened.locator("#state[data-state=off]", has_text="Paused").wait_for()
    for address in ("sounds", "teach"):
        opened.goto(f"{shelf.ui.url}/{address}")
        opened.locator("#pausing-state", has_text="by the owner's page").wait_for()
    opened.get_by_label("What is the sound called?").fill("never")
    opened.get_by_role("button", name="Start").click()
    opened.locator("#after-error", has_text="auricle-edge resume").wait_for()
    shelf.command("resume")
    opened.get_by_role("button", name="Pause listening").wait_for()
    shelf.command("pause")
    opened.locator("#pausing-state", has_text="by a command").wait_for()
    opened.get_by_role("button", name="Listen again").click()
    opened.get_by_role("button", name="Pause listening").wait_for()
    opened.goto(f"{shelf.ui.url}/")
    opened.locator("#state[data-state=on]").wait_for()


def test_no_rule_of_accessibility_is_broken_on_phones(browser, shelf):
    from axe_playwright_python.sync_playwright import Axe

    # The rules come as a script that the page itself would not let in.
    context = browser.new_context(color_scheme="dark", viewport={"width": 390, "height": 900}, bypass_csp=True)
    context.set_default_timeout(180_000)
    page, broken = context.new_page(), {}
    for address in ("/", "/history", "/teach", "/sounds", "/rules", "/sign-in"):
        page.goto(shelf.ui.url + address)
        for form in page.locator(".event [data-more]").all()[:2]:
            form.click()
        if address == "/":
            page.locator(".score").first.wait_for()
        found = Axe().run(page)
        if found.violations_count:
            broken[address] = found.generate_report()
        for width in (320, 390):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), (address, width)
    context.close()
    assert broken == {}


def test_other_sites_can_neither_read_the_page_nor_make_it_do_anything(shelf):
    with httpx.Client(base_url=shelf.ui.url, timeout=180) as client:
        text = client.get("/").text
        token = re.search(r'csrf-token" content="(\w+)"', text)[1]
        assert client.get("/", headers={"Host": "evil.example"}).status_code == 421
        for site in ("cross-site", "same-site"):
            headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
            assert client.get("/heard", headers=headers).status_code == 403
        fields = {"kind": "detected", "at_ms": "1", "label": "kettle"}

        def post(**headers):
            return client.post("/heard/answer", data=fields, headers=headers)

        own = {"Origin": shelf.ui.url}
        assert post(**{"X-CSRF-Token": token}).status_code == 403
        assert post(**{"X-CSRF-Token": token, "Origin": "http://evil.example"}).status_code == 403
        assert post(**{"X-CSRF-Token": token, "Origin": "null"}).status_code == 403
        assert "load it again" in post(**own).json()["error"]
        assert "load it again" in post(**own, **{"X-CSRF-Token": "0" * 64}).json()["error"]
        answer = post(**own, **{"X-CSRF-Token": token})
        assert (answer.status_code, answer.json()["error"][:34]) == (409, "the sound of this event is not kep")
        headers = {**own, "X-CSRF-Token": token}
        assert client.post("/pause", data={"do": "pause"}, headers=own).status_code == 403
        for bad in ({"do": "pause", "for": "1000000000d"}, {"do": "pause", "for": "-5m"}, {"do": "x"}, {}):
            assert client.post("/pause", data=bad, headers=headers).status_code == 409
        assert client.get("/pause").json() == {"paused": ""}
        large = client.post("/heard/answer", content=b"x" * 10_000, headers={**own, "X-CSRF-Token": token})
        assert large.status_code == 409
        policy = client.get("/").headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy


def test_files_of_the_device_are_out_of_reach(shelf):
    with httpx.Client(base_url=shelf.ui.url, timeout=180) as client:
        for address in (
            "/static/..%2f..%2fcli.py",
            "/heard/detected/..%2f..%2fidentity.json",
            "/heard/other/1.wav",
            "/sounds/clip?label=..&clip=identity",
            "/sounds/clip?label=../..&clip=edge",
        ):
            answer = client.get(address)
            assert answer.status_code in (404, 409), (address, answer.status_code, answer.text)
        clip = next(path for path in clip_files(shelf.clips) if path.parent.name == "kettle")
        query = {"label": clip.parent.name, "clip": clip.stem}
        assert client.get("/sounds/clip", params=query).content == clip.read_bytes()


def test_beyond_this_machine_he_signs_in_first(page, shelf):
    ui = OwnerPage(shelf.config, "--host", "0.0.0.0", "--insecure-http")
    try:
        token = ui.process.stdout.readline().removeprefix("its token: ").strip()
        address = ui.url.replace("0.0.0.0", "127.0.0.1")
        assert httpx.get(f"{address}/live", timeout=180).status_code == 401
        assert httpx.get(f"{address}/", headers={"Cookie": "auricle_page=" + "0" * 64}, timeout=180).status_code == 401
        page.goto(address)
        page.get_by_label("Token").fill("aaaa-bbbb-cccc-dddd")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("alert").get_by_text("This is not the token.").wait_for()
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Sign in").click()
        page.locator("#state[data-state=on]").wait_for()
        (cookie,) = page.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    finally:
        ui.end()


def test_a_phone_is_signed_in_by_the_link_of_the_code_over_tls_and_keeps_no_trace_of_it(browser, shelf, tmp_path):
    certificate = tls.automatic(tmp_path, ["shelf.test"], datetime.now(UTC)).file
    config = shelf.folder / "phone.toml"
    ui = f'[ui]\nhost = "0.0.0.0"\nnames = ["localhost"]\ncertificate = "{certificate}"\nkey = "{certificate}"\n'
    config.write_text(shelf.config.read_text() + ui)
    with OwnerPage(config, "--phone", scheme="https") as phone:
        lines = iter(phone.process.stdout.readline, "")
        link = next(line for line in lines if "open it with the phone's camera" in line).rpartition(" ")[2].strip()
        port = phone.url.rpartition(":")[2]
        assert re.fullmatch(rf"https://localhost:{port}/sign-in#([a-z2-7]{{4}}-){{3}}[a-z2-7]{{4}}", link)
        context = browser.new_context(ignore_https_errors=True)
        context.set_default_timeout(180_000)
        page, asked = context.new_page(), []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(link)
        page.locator("#state[data-state=on]").wait_for()
        assert "#" not in page.url
        assert not [url for url in asked[1:] if link.rpartition("#")[2] in url]
        (cookie,) = context.cookies()
        assert cookie["secure"]
        manifest = page.locator("link[rel=manifest]").get_attribute("href")
        assert (
            page.request.get(f"{phone.url.replace('0.0.0.0', 'localhost')}/{manifest}").json()["display"]
            == "standalone"
        )
        context.close()
        phone.end()
    refused = shelf.command("ui", "--phone", "--port", "0", check=False)
    assert refused.returncode == 1
    assert "a phone cannot reach the page" in refused.stderr
    config.write_text(shelf.config.read_text() + ui.replace(str(certificate), str(config)))
    refused = run_module("edge_client.cli", "ui", "--config", str(config), "--port", "0")
    assert "[ui] certificate" in refused.stderr
