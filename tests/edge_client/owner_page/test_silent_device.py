"""What an owner reads on the page of a device that hears nothing: why, and what to do."""

import os
import signal

import pytest

from tests.support.edge_process import EdgeDaemon, wait_for
from tests.support.owner_page import page_beside
from tests.support.sound_server import no_sound_devices

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def deaf(tmp_path_factory):
    """A device without a sound card, that knows two words."""
    device = EdgeDaemon(tmp_path_factory.mktemp("deaf") / "shelf", "words", "[microphone]\n")
    for word in ("computer", "stop"):
        device.command("clips", "knows", word)
    # Tests before may have a sound server, and say so in this process's environment.
    environment = os.environ | no_sound_devices(device.folder)
    with page_beside(device.start(environment), environment) as device.ui:
        wait_for(lambda: device.status().get("loops", {}).get("listening", {}).get("error"), what="its trouble")
        yield device


def test_the_page_says_why_no_sound_comes_and_what_it_knows(page, deaf):
    page.goto(deaf.ui.url)
    page.locator("#state[data-state=off]", has_text="No sound comes").wait_for()
    page.locator("#trouble", has_text="No microphone is there: plug one in").wait_for()
    assert "Infinity" not in page.locator("main").inner_text()
    page.locator("#no-scores", has_text="It knows computer, stop.").wait_for()
    assert not page.locator("#scores-title ~ *", has_text="Nothing yet").count()


def test_teaching_says_it_before_and_where_somebody_tries(page, deaf):
    page.goto(f"{deaf.ui.url}/teach")
    page.locator("#silent", has_text="no microphone is there: plug one in").wait_for()
    page.get_by_label("What is the sound called?").fill("kettle")
    page.get_by_role("button", name="Start").click()
    page.locator("#after-error", has_text="No microphone is there").wait_for()
    page.locator("#kept", has_text="No take was kept: there is nothing to learn.").wait_for()
    assert not page.locator("#learned").is_visible()
    assert not page.locator("#tried").is_visible()


def test_a_daemon_that_stands_still_is_ill_and_the_page_says_it(page, deaf):
    page.goto(deaf.ui.url)
    deaf.process.send_signal(signal.SIGSTOP)
    try:
        wait_for(lambda: "STANDS STILL" in deaf.command("status", check=False).stdout, what="an old status")
        assert deaf.command("status", check=False).returncode == 4
        page.locator("#trouble", has_text="The daemon has said nothing for").wait_for()
    finally:
        deaf.process.send_signal(signal.SIGCONT)
    wait_for(lambda: "STANDS STILL" not in deaf.command("status", check=False).stdout, what="a new status")
