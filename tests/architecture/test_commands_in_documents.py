"""Every command that a document shows can be typed: its program knows the command, the options and their values."""

import contextlib
import io
import itertools
import re
import shlex
from collections.abc import Iterator

import pytest

import aggregator_server.cli
import edge_client.cli
import fleet_simulator.cli
import model_export.cli
from tests.support.checkout import ROOT

PROGRAMS = {
    "auricle-edge": edge_client.cli,
    "auricle-aggregator": aggregator_server.cli,
    "auricle-sim": fleet_simulator.cli,
    "auricle-export": model_export.cli,
}
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "studies").glob("*.md")])
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[list[str]]:
    """The words of each call of a program in a page's blocks; of what may be left out, the brackets are gone."""
    found = []
    for language, block in BLOCK.findall(text):
        if language not in ("", "sh", "bash", "console"):
            continue
        for line in re.sub(r"\\\n\s*", "", block).splitlines():
            if not any(program in line for program in PROGRAMS):
                continue
            words = shlex.shlex(line.replace("[", "").replace("]", ""), posix=True, punctuation_chars=True)
            words.whitespace_split = True
            found += calls(list(words))
    return found


def calls(words: list[str]) -> Iterator[list[str]]:
    """The commands of a line that call a program, without what runs them as another user."""
    for separator, part in itertools.groupby(words, key=lambda word: set(word) <= set(";&|<>()")):
        call = [word for word in part if word != "$"]
        if call[:1] == ["sudo"]:
            call = call[3:] if call[1:2] == ["-u"] else call[1:]
        if not separator and call and call[0] in PROGRAMS:
            yield call


def refusal(call: list[str]) -> str:
    """What the program says of a command; "" where it takes it."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        try:
            PROGRAMS[call[0]].parser().parse_args(call[1:])
        except SystemExit as ended:
            return said.getvalue() if ended.code else ""
    return ""


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_of_a_page_is_taken(document):
    refused = {shlex.join(call): said for call in commands(document.read_text()) if (said := refusal(call))}
    assert refused == {}


def test_a_wrong_command_would_be_seen():
    lines = (
        "sudo -u auricle auricle-edge run --confg 'a; b'   # a comment",
        "auricle-edge status && auricle-sim new x &",
    )
    other = ("```toml", "[mqtt]", "```", "Its owner's auricle-edge is no command here.")
    page = "\n".join((*other, "```sh", *lines, "systemctl restart auricle-edge", "```", ""))
    wrong, right, other = commands(page)
    assert wrong == ["auricle-edge", "run", "--confg", "a; b"]
    assert "--confg" in refusal(wrong)
    assert (right, refusal(right)) == (["auricle-edge", "status"], "")
    assert (other, refusal(other)) == (["auricle-sim", "new", "x"], "")
