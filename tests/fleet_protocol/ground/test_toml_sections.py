"""Messages name the line of a key, also in sections that are there more than once."""

from pathlib import Path

import pytest

from fleet_protocol.errors import AuricleError
from fleet_protocol.ground.toml_sections import TomlFile

TEXT = """title = "x"
[data]
source = "a"
[data.more]
"depth" = 1

[[users]]
name = "first"
[[users.events]]
round = 1
[[users.events]]
round = 2
[[users]]
name = "second"
[[users.events]]
round = 3
"""
FILE = TomlFile(Path("e.toml"), TEXT, {}, AuricleError)


@pytest.mark.parametrize(
    ("section", "key", "nth", "line"),
    [
        (None, "title", (), 1),
        ("data", "source", (), 3),
        ("data", "depth", (), 5),
        ("data.more", "depth", (), 5),
        ("data", "nothing", (), 2),
        ("users", "name", (1,), 8),
        ("users", "name", (2,), 14),
        ("users.events", "round", (1, 2), 12),
        ("users.events", "round", (2, 1), 16),
        ("users.events", None, (2, 1), 15),
        ("users", None, (2,), 13),
    ],
)
def test_the_line_is_that_of_the_key_or_of_its_section(section, key, nth, line):
    assert FILE.place(section, key, nth) == f"e.toml, line {line}"


def test_what_is_nowhere_has_no_line():
    assert FILE.place("nowhere", "x") == "e.toml"


def test_a_byte_order_mark_is_no_part_of_the_file(tmp_path):
    path = tmp_path / "edge.toml"
    path.write_text('[device]\nname = "Küche"\n', encoding="utf-8-sig")
    assert TomlFile.read(path, "configuration", AuricleError).document == {"device": {"name": "Küche"}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = " + "[" * 10_000, "is not valid TOML: maximum recursion depth"),
        ("a = " + "9" * 5_000, "is not valid TOML: Exceeds the limit"),
        ("# " + "x" * 5_000_000, "more than 4194304 characters"),
    ],
)
def test_what_no_configuration_is_ends_in_an_error_that_names_the_file(tmp_path, text, message):
    path = tmp_path / "edge.toml"
    path.write_text(text)
    with pytest.raises(AuricleError, match=f"edge.toml.*{message}"):
        TomlFile.read(path, "configuration", AuricleError)


def test_a_device_that_never_ends_is_no_configuration():
    with pytest.raises(AuricleError, match="cannot read the configuration /dev/zero: it has more than"):
        TomlFile.read(Path("/dev/zero"), "configuration", AuricleError)
