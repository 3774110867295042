"""The documentation site: built strictly, complete, and without anything from another host."""

import argparse
import dataclasses
import html
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import aggregator_server.cli
import edge_client.cli
import fleet_simulator.cli
from edge_client.config import section_classes
from tests.support.checkout import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, of a strict build: an unknown link, heading or page fails it."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    built = subprocess.run(build, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240)
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
    assert meanings["quota_mb"].startswith("Largest size of all taught clips")
    assert all(meanings.values())


def test_every_address_of_the_server_has_its_place(site: Path) -> None:
    text = words(site / "reference" / "rest.html")
    for address in ("POST /v1/rounds", "GET /v1/work", "PATCH /v1/classes/{class_id}"):
        assert address in text


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 25
    loads = re.compile(r'<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)="((?:https?:)?//[^"]+)"')
    assert {found for page in pages for found in loads.findall(page.read_text())} == set()
