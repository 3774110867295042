"""Makes the pictures of docs/dashboard.md anew: ``python -m tests.support.dashboard_pictures``."""

import io
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from tests.support.aggregator_process import Aggregator
from tests.support.checkout import ROOT
from tests.support.dashboard_visitor import sign_in
from tests.support.pictured_fleet import fleet_folder

FOLDER = ROOT / "docs" / "pictures"
# (name, path, colours, width, height)
PICTURES = (
    ("dashboard-overview", "/", "light", 1100, 1020),
    ("dashboard-class", "/classes/c4", "dark", 1100, 1330),
    ("dashboard-phone", "/rounds/6", "light", 390, 900),
)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        fleet_folder(data, newcomer="attic window")
        aggregator = Aggregator(data).start()
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
                for picture in PICTURES:
                    take(browser, aggregator.url, *picture)
                browser.close()
        finally:
            aggregator.stop()


def take(browser: Browser, url: str, name: str, path: str, colours: str, width: int, height: int) -> None:
    """Take one picture, with few enough colours to be small."""
    context = browser.new_context(
        color_scheme=colours, viewport={"width": width, "height": height}, reduced_motion="reduce"
    )
    page = context.new_page()
    sign_in(page, url)
    page.goto(url + path)
    if page.locator("figure[data-chart]").count():
        page.locator(".chart canvas").wait_for()
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB").quantize(96, dither=Image.Dither.NONE)
    picture.save(FOLDER / f"{name}.png", optimize=True)
    context.close()


if __name__ == "__main__":
    main()
