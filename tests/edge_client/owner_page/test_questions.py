"""What the device asks, answered by its owner in Chromium beside a daemon that learns it."""

import os
import signal

import pytest

from edge_client.config import load_config
from edge_client.learning.worker import run
from tests.support.asked_device import ask, sound
from tests.support.edge_process import EdgeDaemon, wait_for
from tests.support.owner_page import OwnerPage
from tests.support.sound_server import no_sound_devices
from tests.support.sounds import write_clips

pytestmark = pytest.mark.slow

SECTIONS = """
[microphone]
file = "recordings"
[training]
teach_epochs = 8
nice = 0
[detector]
energy_gate_db = 0.0
unknown_onset_db = 100.0
"""
PATIENCE_MS = 180_000


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """A device that hears nothing of its own, and its page."""
    folder = tmp_path_factory.mktemp("asked")
    daemon = EdgeDaemon(folder / "shelf", "base", SECTIONS)
    for name, melody in (("kettle", "yes"), ("<b>bell", "no")):
        write_clips(daemon.state / "clips", melody, 6, seed=3)
        (daemon.state / "clips" / melody).rename(daemon.state / "clips" / name)
    write_clips(daemon.folder / "recordings", "yes", 1, seed=9)
    run(load_config(daemon.config), None)
    daemon.start(os.environ | no_sound_devices(folder))
    with daemon, OwnerPage(daemon.config) as ui:
        daemon.ui = ui
        wait_for(lambda: "kettle" in daemon.status().get("model", {}).get("labels", ()), what="the taught sounds")
        yield daemon
        status, errors = ui.end()
        assert (status, daemon.end(signal.SIGTERM)) == (0, 0)
        assert "Traceback" not in errors + daemon.log()


@pytest.fixture
def opened(page, shelf):
    page.set_default_timeout(PATIENCE_MS)
    page.goto(shelf.ui.url)
    return page


def count(shelf, folder):
    return len(list((shelf.state / "clips" / folder).glob("*.wav")))


def kept(shelf):
    return len(list((shelf.state / "questions").glob("*.wav")))


def question(page, one):
    return page.locator(f"[data-question='{one.question_id}']")


def test_a_question_appears_plays_is_answered_learned_and_undone(opened, shelf):
    assert opened.locator("#questions section").count() == 0
    one = ask(shelf.config, window=sound("up", 1), detected=True)
    row = question(opened, one)
    row.wait_for()  # without loading the page again
    assert "Was that kettle?" in row.inner_text()
    with opened.expect_response("**/questions/*.wav") as played:
        row.locator("[data-play]").click()
    assert played.value.headers["content-type"] == "audio/wav"
    row.locator("[data-play]").click()
    before, taught = count(shelf, "kettle"), shelf.device_state().model.taught()
    row.get_by_role("button", name="Yes, it was kettle").click()
    opened.locator("#told", has_text="Thank you.").wait_for()
    row.wait_for(state="detached")
    assert (count(shelf, "kettle"), kept(shelf)) == (before + 1, 0)
    wait_for(lambda: shelf.device_state().model.taught() != taught, what="a model that learned it")
    opened.goto(f"{shelf.ui.url}/sounds")
    opened.get_by_role("button", name="Undo: kettle was asked about").click()
    opened.locator("#told", has_text="Your answer about kettle is taken back").wait_for()
    assert (count(shelf, "kettle"), kept(shelf)) == (before, 1)
    wait_for(lambda: shelf.device_state().model.taught() == taught, what="a model without it")
    opened.goto(shelf.ui.url)
    row.get_by_role("button", name="No, it was not kettle").click()
    opened.locator("#told", has_text="Thank you.").wait_for()
    assert (count(shelf, "_not_/kettle"), kept(shelf)) == (1, 0)
