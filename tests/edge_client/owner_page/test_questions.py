"""What the device asks, answered by its owner in Chromium beside a daemon that learns it."""

import pytest

from tests.support.asked_device import ask, sound
from tests.support.edge_process import wait_for
from tests.support.owner_page import page_beside
from tests.support.sounds import write_clips
from tests.support.taught_device import PlayingDaemon

pytestmark = pytest.mark.slow

SECTIONS = """
teach_epochs = 8
[detector]
energy_gate_db = 0.0
unknown_onset_db = 100.0
"""


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """A device that hears nothing of its own, and its page."""
    device = PlayingDaemon(tmp_path_factory.mktemp("asked") / "shelf", SECTIONS)
    write_clips(device.folder / "recordings", "yes", 1, seed=9)
    device.teach({"kettle": "yes", "<b>bell": "no"}, 6)
    with page_beside(device.start()) as device.ui:
        wait_for(lambda: "kettle" in device.labels(), what="the taught sounds")
        yield device


@pytest.fixture
def opened(page, shelf):
    page.goto(shelf.ui.url)
    return page


def test_a_question_appears_plays_is_answered_learned_and_undone(opened, shelf):
    assert opened.locator("#questions section").count() == 0
    one = ask(shelf.config, window=sound("up", 1), detected=True)
    row = opened.locator(f"[data-question='{one.question_id}']")
    row.wait_for()  # without loading the page again
    assert "Was that kettle?" in row.inner_text()
    with opened.expect_response("**/questions/*.wav") as played:
        row.locator("[data-play]").click()
    assert played.value.headers["content-type"] == "audio/wav"
    row.locator("[data-play]").click()
    before, taught = shelf.count("clips/kettle"), shelf.device_state().model.taught()
    row.get_by_role("button", name="Yes, it was kettle").click()
    opened.locator("#told", has_text="Thank you.").wait_for()
    row.wait_for(state="detached")
    assert (shelf.count("clips/kettle"), shelf.count("questions")) == (before + 1, 0)
    wait_for(lambda: shelf.device_state().model.taught() != taught, what="a model that learned it")
    opened.goto(f"{shelf.ui.url}/sounds")
    opened.get_by_role("button", name="Undo: kettle was asked about").click()
    opened.locator("#told", has_text="Taken back: kettle was asked about; you said: kettle").wait_for()
    assert (shelf.count("clips/kettle"), shelf.count("questions")) == (before, 1)
    wait_for(lambda: shelf.device_state().model.taught() == taught, what="a model without it")
    opened.goto(shelf.ui.url)
    row.get_by_role("button", name="No, it was not kettle").click()
    opened.locator("#told", has_text="Thank you.").wait_for()
    assert (shelf.count("clips/_not_/kettle"), shelf.count("questions")) == (1, 0)
