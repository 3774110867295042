"""The documentation site: built strictly, complete, and without anything from another host."""

import argparse
import dataclasses
import html
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

import aggregator_server.cli
import edge_client.cli
import fleet_simulator.cli
from edge_client.config import section_classes
from tests.support.checkout import ROOT, run_module


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, of a strict build: an unknown link, heading or page fails it."""
    folder = tmp_path_factory.mktemp("site")
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    built = run_module("mkdocs", "build", "--strict", "--quiet", "--site-dir", folder, env=environment, timeout=240)
    assert built.returncode == 0, built.stderr
    return folder


def words(page: Path) -> str:
    """What a person reads on a page."""
    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text()))


def names(parser: argparse.ArgumentParser, prefix: str) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                yield f"{prefix} {name}"
                yield from names(command, f"{prefix} {name}")


def test_every_command_has_its_place(site: Path) -> None:
    text = words(site / "reference" / "commands.html")
    programs = (edge_client.cli, aggregator_server.cli, fleet_simulator.cli)
    wanted = [name for program in programs for name in names(program.parser(), program.parser().prog)]
    assert len(wanted) > 20
    assert [name for name in wanted if f"{name}¶" not in text] == []


def test_every_key_of_the_configuration_has_its_place_and_its_meaning(site: Path) -> None:
    page = (site / "reference" / "configuration.html").read_text()
    rows = [re.findall(r"<td>(.*?)</td>", row, re.DOTALL) for row in re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)]
    meanings = {re.sub(r"<[^>]+>", "", cells[0]): cells[3] for cells in rows if cells}
    for section in section_classes().values():
        assert {field.name for field in dataclasses.fields(section)} <= meanings.keys()
    assert meanings["quota_mb"].startswith("size of all taught clips")
    assert all(meanings.values())


def test_every_address_of_the_server_has_its_place(site: Path) -> None:
    text = words(site / "reference" / "rest.html")
    for address in ("POST /v1/rounds", "GET /v1/work", "PATCH /v1/classes/{class_id}"):
        assert address in text


# What does not fit: a page that is wider than the screen; a cell of several lines that is narrower than 8 em; a wide
# table that does not scroll in a box of its own.
MISFITS = """() => {
  const found = [], screen = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > screen) found.push("the page");
  for (const cell of document.querySelectorAll("article th, article td")) {
    const style = getComputedStyle(cell), text = document.createRange();
    text.selectNodeContents(cell);
    const lines = text.getBoundingClientRect().height / parseFloat(style.lineHeight);
    if (lines > 1.5 && cell.clientWidth < 8 * parseFloat(style.fontSize)) found.push(cell.textContent);
  }
  for (const table of document.querySelectorAll("article table")) {
    if (table.getBoundingClientRect().width <= screen) continue;
    const box = table.closest(".md-typeset__scrollwrap");
    if (!box || box.clientWidth > screen || getComputedStyle(box).overflowX !== "auto") found.push("a table");
  }
  return found;
}"""


@pytest.mark.slow
def test_every_page_can_be_read_on_a_phone(site: Path, page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    found = {}
    for path in sorted(site.rglob("*.html")):
        page.goto(path.as_uri())
        if misfits := page.evaluate(MISFITS):
            found[path.relative_to(site).as_posix()] = misfits
    assert found == {}


def test_the_home_page_says_shows_and_lets_try_on_one_screen(site: Path, page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto((site / "index.html").as_uri())
    commands, picture = page.locator("article pre"), page.locator("article img")
    for part in (page.locator("article h1"), commands, picture):
        box = part.bounding_box()
        assert box is not None
        assert box["y"] > 0
        assert box["y"] + box["height"] <= 800
    assert picture.evaluate("image => image.naturalWidth") > 1000  # it was loaded
    assert picture.bounding_box()["width"] > 500
    typed = commands.inner_text().strip().splitlines()
    assert len(typed) == 2
    # Those of the README, which a test types.
    known = [line.partition(" #")[0].strip() for line in (ROOT / "README.md").read_text().splitlines()]
    assert [line for line in typed if line not in known] == []


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 25
    loads = re.compile(r'<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)="((?:https?:)?//[^"]+)"')
    assert {found for page in pages for found in loads.findall(page.read_text())} == set()
