"""What a sound may be, on the owner's page in Chromium: the guess, listening for it, and the form that has it."""

import os

import pytest

from edge_client.clips.folders import known_labels
from edge_client.events import Event
from edge_client.events.history import newest
from edge_client.events.journal import Chosen, Journal
from edge_client.storage.database import FILE, Database
from tests.edge_client.daemon.test_guesses import ALARMS, device_that_plays
from tests.support.edge_process import wait_for
from tests.support.owner_page import page_beside
from tests.support.sound_server import no_sound_devices

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """A device that hears an alarm again and again, and its page."""
    device = device_that_plays(tmp_path_factory.mktemp("guesses") / "shelf", "sounds_2s")
    with page_beside(device.start(os.environ | no_sound_devices(device.folder))) as device.ui:
        wait_for(lambda: device.count("unknown"), what="an unknown sound")
        yield device


def chosen(shelf):
    return set(known_labels(shelf.state / "clips").values())


def test_a_guess_stands_beside_the_sound_and_its_form_and_is_listened_for_at_one_click(page, shelf):
    page.goto(shelf.ui.url)
    newest = page.locator(".event", has_text="perhaps:").filter(has=page.locator("[data-more]")).first
    row = page.locator(f".event[data-at='{newest.get_attribute('data-at')}']")  # others come above it
    guess = row.locator("text=perhaps:").inner_text().removeprefix("perhaps: ").split(", ")
    assert ALARMS & set(guess)
    row.locator("[data-more]").click()
    field = row.locator("input[name=label]")
    assert field.input_value() == guess[0]
    page.keyboard.type("boiler")  # over the guess
    assert field.input_value() == "boiler"
    row.locator("[data-more]").click()
    word = page.locator("[data-know]", has_text="from now on").first.get_attribute("data-know")
    assert word in ALARMS
    page.locator(f"[data-know='{word}']", has_text="from now on").first.click()
    page.locator("#told", has_text=f"{word} is listened for.").wait_for()
    assert chosen(shelf) == {word}
    wait_for(lambda: page.locator(f"[data-know='{word}']").count() == 0, what="the page without the button")
    wait_for(lambda: word in shelf.labels(), what="the built-in label")
    page.goto(f"{shelf.ui.url}/sounds")
    page.locator("h3, h2", has_text=word).first.wait_for()


def test_the_last_ten_seconds_have_names_under_the_spectrogram_of_which_one_is_listened_for(page, shelf):
    page.goto(shelf.ui.url)
    before = chosen(shelf)
    # At once: before the alarm comes again, there may be none for a while.
    page.locator(".guessed:has(#guesses li strong) #no-guess[hidden]").wait_for(state="attached")
    assert page.locator("#guesses li").count() <= 3
    word = page.locator("#guesses li:has(button)").first.get_attribute("data-word")
    assert word not in before
    page.locator(f"#guesses [data-word='{word}'] button").click()
    page.locator("#told", has_text=f"{word} is listened for.").wait_for()
    assert chosen(shelf) == {*before, word}
    wait_for(lambda: page.locator(f"#guesses [data-word='{word}'] button").count() == 0, what="no button any more")


def test_guesses_break_no_rule_of_accessibility_on_a_phone(browser, shelf):
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(color_scheme="dark", viewport={"width": 390, "height": 900}, bypass_csp=True)
    context.set_default_timeout(180_000)
    page = context.new_page()
    page.goto(shelf.ui.url)
    page.locator("#guesses li").first.wait_for()
    page.locator(".event", has_text="perhaps:").first.wait_for()
    found = Axe().run(page)
    fits = page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    context.close()
    assert (found.violations_count, fits) == (0, True), found.generate_report()


def test_a_guess_is_text_and_what_is_not_built_in_has_no_button(page, shelf):
    database = Database(shelf.state / FILE)
    last = newest(database, Chosen(), 1)[0]
    journal = Journal(database)
    journal.publish(Event(last.time - 86_400, "unknown", "unknown", None, 0.1, -30.0, guess="<b>sewing machine, glass"))
    journal.close()
    page.goto(shelf.ui.url)
    row = page.locator(".event", has_text="<b>sewing machine, glass")
    row.wait_for()
    assert row.locator("b, [data-know], [data-more]").count() == 0


def test_what_is_not_built_in_cannot_be_listened_for(page, shelf):
    page.goto(shelf.ui.url)
    before = chosen(shelf)
    for sound in ("../up", "sewing machine", "x" * 3000, ""):
        said = page.evaluate(
            """async (sound) => {
              const { send } = await import(`${location.origin}/static/common.js`);
              return send("sounds/know", { sound }).then(() => "taken", (error) => error.message);
            }""",
            sound,
        )
        assert said != "taken"
        assert chosen(shelf) == before
