"""Fixtures of a browser: Debian's Chromium, without a window, driven by Playwright."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

_NOTE_PLAYING = """() => new MutationObserver((changes) => {
  if (changes.some(({ target }) => target.hasAttribute("data-playing"))) document.documentElement.dataset.played = "";
}).observe(document.body, { subtree: true, attributeFilter: ["data-playing"] })"""


def note_playing(page: Page) -> None:
    """Have the owner's page note in ``html[data-played]`` that it plays a sound, which lasts a second alone."""
    page.evaluate(_NOTE_PLAYING)


@pytest.fixture(scope="module")
def browser():
    """A Playwright browser; skips the test where Chromium is not installed.

    It ends with its module: while it runs, no other event loop can run in this thread.
    """
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("not installed: chromium (on Debian: apt-get install chromium)")
    from playwright.sync_api import sync_playwright  # here: a device's tests run where it is not installed

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"], timeout=180_000)
        yield running
        running.close()


@pytest.fixture
def page(browser):
    """An empty page that shares no cookies with another test; an uncaught error of a script fails the test."""
    context = browser.new_context()
    context.set_default_timeout(180_000)
    empty = context.new_page()
    errors: list[str] = []
    empty.on("pageerror", lambda error: errors.append(str(error)))
    yield empty
    context.close()
    assert errors == []
