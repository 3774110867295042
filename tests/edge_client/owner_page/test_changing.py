"""What the owner changes on the page, in Chromium beside a daemon that listens to recordings for want of a card."""

import re
import shutil

import httpx
import numpy as np
import pytest
import soundfile

from edge_client.detection.sensitivity import threshold_at
from tests.support.browser import note_playing
from tests.support.edge_process import wait_for
from tests.support.owner_page import page_beside
from tests.support.sounds import phone_recording, write_clips
from tests.support.taught_device import PlayingDaemon

pytestmark = pytest.mark.slow

SECTIONS = "teach_epochs = 8\n"
NAMES = {"zero": "stop", "kettle": "yes"}


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    """The folder of a device that was taught these."""
    device = PlayingDaemon(tmp_path_factory.mktemp("taught") / "shelf", SECTIONS)
    for sound in NAMES.values():
        write_clips(device.folder / "recordings", sound, 4, seed=9)
    device.teach(NAMES, 8)
    return device.folder


@pytest.fixture
def shelf(taught, tmp_path):
    """A copy of that device, and its page."""
    device = PlayingDaemon(shutil.copytree(taught, tmp_path / "shelf"), SECTIONS)
    with page_beside(device.start()) as device.ui:
        wait_for(lambda: set(NAMES) <= device.status().get("sensitivity", {}).keys(), what="the taught sounds")
        yield device


@pytest.fixture
def opened(page, shelf):
    page.goto(f"{shelf.ui.url}/sounds")
    return page


def card(page, name):
    return page.locator(".cards .card").filter(has=page.get_by_role("heading", name=name, exact=True))


def takes(shelf, label):
    return {path.name for path in (shelf.state / "clips" / label).glob("*.wav")}


def heard_from(shelf, name):
    return shelf.status().get("sensitivity", {}).get(name, {}).get("threshold")


def test_a_sound_is_made_more_sensitive_renamed_deleted_and_all_of_it_undone(opened, shelf):
    before, chosen, step = takes(shelf, "kettle"), heard_from(shelf, "kettle"), 3
    opened.locator(".banner", has_text=str(shelf.folder / "recordings")).wait_for()
    slider = card(opened, "kettle").get_by_label("Sensitivity to kettle", exact=True)
    slider.fill(str(step))
    card(opened, "kettle").get_by_text(
        re.compile(r"Heard from 99.85 % on: that would have been \d+ detections? in the last (?!1 minutes)")
    ).wait_for()
    wait_for(lambda: heard_from(shelf, "kettle") == round(threshold_at(step), 5), what="another threshold")
    card(opened, "kettle").get_by_role("button", name="Rename kettle").click()
    card(opened, "kettle").get_by_label("What shall kettle be called?").fill("teapot")
    opened.keyboard.press("Enter")
    opened.locator("#told", has_text="kettle is teapot now").wait_for()
    assert "auricle-edge" not in opened.locator("main").inner_text()
    assert takes(shelf, "teapot") == before
    wait_for(lambda: "teapot" in shelf.labels() and "kettle" not in shelf.labels(), what="the new name")
    wait_for(lambda: heard_from(shelf, "teapot") == round(threshold_at(step), 5), what="its threshold")
    opened.get_by_role("button", name="Undo: kettle was renamed").click()
    card(opened, "kettle").wait_for()
    assert (takes(shelf, "kettle"), takes(shelf, "teapot")) == (before, set())
    wait_for(lambda: "kettle" in shelf.labels() and "teapot" not in shelf.labels(), what="the former name")
    card(opened, "kettle").get_by_role("button", name="Let the device choose").click()
    opened.locator("#told", has_text="The device chooses").wait_for()
    wait_for(lambda: heard_from(shelf, "kettle") == chosen, what="the device's own threshold")

    card(opened, "kettle").get_by_role("button", name="Delete kettle").click()
    assert takes(shelf, "kettle") == before  # it asks first
    card(opened, "kettle").get_by_text("Its 8 clips go").wait_for()
    card(opened, "kettle").locator("form[data-do=delete] button").click()
    opened.locator("#told", has_text="kettle is deleted").wait_for()
    assert card(opened, "kettle").count() == 0
    wait_for(lambda: "kettle" not in shelf.labels(), what="a model without it")
    opened.get_by_role("button", name="Undo: kettle was deleted").click()
    card(opened, "kettle").wait_for()
    assert takes(shelf, "kettle") == before
    wait_for(lambda: "kettle" in shelf.labels(), what="the sound that is back")


def test_a_sound_is_listened_for_or_not_and_at_its_hours(opened, shelf):
    box = card(opened, "kettle").get_by_label("Listen for kettle")
    assert box.is_checked()
    box.focus()
    opened.keyboard.press("Space")
    card(opened, "kettle").get_by_text("Not listened for now: you switched it off.").wait_for()
    wait_for(lambda: shelf.status()["sensitivity"].keys() == {"zero"}, what="a daemon without it")
    assert "'kettle' is not listened for: you switched it off" in shelf.command("status").stdout
    card(opened, "kettle").get_by_label("Listen for kettle").check()
    opened.locator("#told", has_text="kettle: it is listened for at all hours.").wait_for()
    wait_for(lambda: shelf.status()["sensitivity"].keys() == {"kettle", "zero"}, what="a daemon with it")
    card(opened, "kettle").get_by_role("button", name="Hours of kettle").click()
    for given, said in (
        ("7 to 10", "must be like"),
        ("07:00-22:00, 23:00-24:00", "its hours are 07:00-22:00, 23:00-24"),
    ):
        card(opened, "kettle").get_by_label("At which hours?").fill(given)
        opened.keyboard.press("Enter")
        opened.locator("#told", has_text=said).wait_for()
    card(opened, "kettle").get_by_text("Listen for it, 07:00-22:00, 23:00-24:00").wait_for()


def test_a_false_alarm_is_called_one_without_its_sound_and_that_is_taken_back(page, shelf):
    page.goto(shelf.ui.url)
    events = page.locator(".event[data-kind=detected]")
    at = events.filter(has=page.get_by_role("button", name="That was wrong")).first.get_attribute("data-at")
    said = page.locator(f".event[data-at='{at}']")  # others come above it
    name = said.locator("strong").inner_text()
    assert said.locator("[data-play]").count() == 0  # nothing of it is kept
    said.get_by_role("button", name="That was wrong").click()
    page.locator("#told", has_text=f"It counts as a false alarm of {name}. Let the device keep").wait_for()
    said.get_by_text("You said: that was wrong.").wait_for()

    def wrong():
        return shelf.status()["room"]["labels"].get(name, {}).get("wrong")

    wait_for(lambda: wrong() == 1, what="a false alarm that counts")
    said.get_by_role("button", name="Undo what you said").click()
    said.get_by_role("button", name="That was wrong").wait_for()
    wait_for(lambda: wrong() == 0, what="a detection that was right after all")


# Holds back the next list that the page asks for by itself, as it does while something is learned.
HOLD = """() => {
  const asked = window.fetch;
  const released = new Promise((release) => { window.release = release; });
  window.fetch = async (...given) => {
    const answer = await asked(...given);
    if (given[0] !== "sounds" || "held" in document.documentElement.dataset) return answer;
    document.documentElement.dataset.held = "";
    await released;
    return answer;
  };
  document.querySelector("#known").firstElementChild.dataset.learning = "";
}"""
RELEASE = "() => { window.release(); return new Promise((done) => setTimeout(done, 500)); }"


def test_a_list_that_comes_late_brings_nothing_back(opened, shelf):
    opened.evaluate(HOLD)
    opened.locator("html[data-held]").wait_for()
    card(opened, "kettle").get_by_role("button", name="Delete kettle").click()
    card(opened, "kettle").locator("form[data-do=delete] button").click()
    opened.locator("#told", has_text="kettle is deleted").wait_for()
    opened.evaluate(RELEASE)
    assert card(opened, "kettle").count() == 0
    assert takes(shelf, "kettle") == set()


def test_one_clip_is_played_moved_deleted_and_both_taken_back_the_newest_first(opened, shelf):
    before = {name: takes(shelf, name) for name in NAMES}
    kettle = card(opened, "kettle")
    kettle.locator("summary").click()
    note_playing(opened)
    kettle.get_by_role("button", name="Play clip 1 of kettle").click()
    opened.locator("html[data-played]").wait_for()
    kettle.get_by_role("button", name="Play clip 1 of kettle").click()  # no longer
    kettle.get_by_role("button", name="Delete clip 1 of kettle").click()
    opened.locator("#told", has_text="The clip is deleted").wait_for()
    kettle.get_by_role("button", name="Move clip 7 of kettle").click()
    kettle.get_by_label("What is clip 7 of kettle a sound of?").fill("zero")
    opened.keyboard.press("Enter")
    opened.locator("#told", has_text="The clip is one of zero now").wait_for()
    assert (len(takes(shelf, "kettle")), len(takes(shelf, "zero"))) == (6, 9)
    lately = opened.locator(".changes li")
    assert ["moved to zero" in text for text in lately.all_inner_texts()] == [True, False]
    for words in ("1 clip of kettle was moved to zero", "1 clip of kettle was deleted"):
        opened.get_by_role("button", name=f"Undo: {words}").click()
        opened.locator("#told", has_text=f"Taken back: {words}").wait_for()
    assert {name: takes(shelf, name) for name in NAMES} == before


def test_what_cannot_be_is_refused_and_two_sounds_are_put_together_only_for_who_wants_that(shelf):
    with httpx.Client(base_url=shelf.ui.url, timeout=180) as client:
        token = re.search(r'csrf-token" content="(\w+)"', client.get("/sounds").text)[1]

        def post(address, **fields):
            return client.post(address, data=fields, headers={"Origin": shelf.ui.url, "X-CSRF-Token": token})

        refused = post("/sounds/rename", label="kettle", new_label="zero")
        assert (refused.status_code, "put together" in refused.json()["error"]) == (409, True)
        for address, fields in (
            ("/sounds/rename", {"label": "kettle", "new_label": "a/b"}),
            ("/sounds/rename", {"label": "../..", "new_label": "x"}),
            ("/sounds/delete", {"label": "_background_"}),
            ("/sounds/undo", {"kind": "deleted", "number": "1"}),
            ("/sounds/sensitivity", {"label": "kettle", "step": "17"}),
            ("/sounds/sensitivity", {"label": "nobody's", "step": "1"}),
        ):
            assert post(address, **fields).status_code == 409, fields
        assert client.post("/sounds/delete", data={"label": "kettle"}).status_code == 403
        assert all(len(takes(shelf, name)) == 8 for name in NAMES)
        assert post("/sounds/rename", label="kettle", new_label="zero", together="yes").status_code == 200
        assert len(takes(shelf, "zero")) == 16


def test_a_phone_s_recording_is_decoded_here_and_cut_into_takes_to_hear_and_keep(opened, shelf, tmp_path):
    memo = phone_recording(tmp_path / "memo.webm", "stop", 4)
    opened.get_by_label("Choose files").set_input_files(memo)
    rows = opened.locator("#chosen li")
    rows.nth(3).wait_for()
    assert rows.count() == 4
    assert not any(".wav" in row for row in rows.all_inner_texts())  # a name that the owner never gave
    note_playing(opened)
    rows.nth(1).get_by_role("button", name="Play memo.webm, take 2").click()
    opened.locator("html[data-played]").wait_for()
    rows.nth(3).get_by_role("button", name="Leave out").click()
    opened.get_by_label("What are they recordings of?").fill("chime")
    opened.get_by_role("button", name="Keep them").click()
    opened.locator("#recordings-told", has_text="3 of 3 kept as chime").wait_for()
    kept = [soundfile.read(shelf.state / "clips" / "chime" / clip)[0] for clip in takes(shelf, "chime")]
    assert [len(samples) for samples in kept] == [16_000] * 3
    assert all(np.abs(samples).max() > 0.1 for samples in kept)


def test_recordings_are_added_and_what_is_none_is_refused(opened, shelf, tmp_path):
    opened.get_by_role("link", name="Teach", exact=True).click()
    opened.wait_for_url("**/teach")  # with its scripts
    (tmp_path / "chime.mp3").write_text("no sound")
    recordings = [next((shelf.folder / "recordings" / "yes").iterdir()), tmp_path / "chime.mp3"]
    opened.get_by_label("Choose files").set_input_files(recordings)
    note_playing(opened)
    opened.get_by_role("button", name=f"Play {recordings[0].name}").click()
    opened.locator("html[data-played]").wait_for()
    opened.get_by_label("What are they recordings of?").fill("chime")
    opened.get_by_role("button", name="Keep them").click()
    opened.locator("#recordings-told", has_text="1 of 2 kept as chime").wait_for()
    opened.locator("#chosen .error", has_text="chime.mp3: cannot read chime.mp3").wait_for()
    assert len(takes(shelf, "chime")) == 1
    wait_for(lambda: "chime" in shelf.labels(), what="the sound that was added")
    opened.get_by_role("link", name="Sounds", exact=True).click()
    opened.wait_for_url("**/sounds")
    opened.get_by_role("button", name="Undo: 1 recording of chime was added").click()
    opened.locator("#told", has_text="Taken back").wait_for()
    wait_for(lambda: "chime" not in shelf.labels(), what="a model without it")


def test_what_was_kept_is_deleted_only_after_a_question(opened, shelf):
    opened.goto(shelf.ui.url)
    keep = opened.get_by_label("Keep the sounds that it detects")
    keep.click()
    opened.locator("#told", has_text="It keeps what it detects").wait_for()
    kept = shelf.state / "detected"
    wait_for(lambda: kept.is_dir() and any(kept.glob("*.wav")), what="a kept sound")
    opened.reload()
    keep.click()
    opened.get_by_text("This cannot be undone").wait_for()
    opened.get_by_role("button", name="Go on keeping").click()
    opened.get_by_text("This cannot be undone").wait_for(state="hidden")
    assert keep.is_checked()
    assert any(kept.glob("*.wav"))
    keep.click()
    opened.get_by_role("button", name="Switch off and delete").click()
    opened.locator("#told", has_text="those kept are deleted").wait_for()
    assert not keep.is_checked()
    wait_for(lambda: not any(kept.glob("*.wav")), what="an empty folder")
