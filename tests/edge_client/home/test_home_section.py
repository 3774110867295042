"""`[home]` in the configuration: what it needs, and how its ears share what is promised."""

import pytest

from edge_client.config import load_config
from edge_client.errors import ConfigError

HEAD = '[device]\nname = "x"\nstate = "state"\n[model]\nbundle = "base"\n[detector]\nfalse_accepts_per_hour = 1.5\n'
BROKER = '[mqtt]\nhost = "127.0.0.1"\n'
INPUTS = '[microphone]\n[microphones.window]\ndevice = "hw:2"\n'


def read(folder, text):
    path = folder / "edge.toml"
    path.write_text(HEAD + text)
    return load_config(path)


@pytest.mark.parametrize(
    ("text", "promised"),
    [
        ("", 1.5),
        (BROKER + '[home]\nname = "villa"\n', 1.5),
        (BROKER + INPUTS + '[home]\nname = "villa"\n', 0.75),
        (BROKER + INPUTS + '[home]\nname = "villa"\nears = 5\n', 0.3),
        (INPUTS, 1.5),
    ],
)
def test_what_is_promised_is_the_homes_and_its_ears_share_it(tmp_path, text, promised):
    assert read(tmp_path, text).detector.false_accepts_per_hour == pytest.approx(promised)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[home]\nname = "villa"\n', "line 8: [home] needs [mqtt]"),
        (BROKER + '[home]\nname = "a/b"\n', "line 11: [home] name"),
        (BROKER + '[home]\nname = ""\n', "must have 1 to 40 of A-Z"),
        (BROKER + '[home]\nname = "v"\nwindow_s = 9\n', "must be from 0.2 to 3"),
        (BROKER + '[home]\nname = "v"\nears = 0\n', "must be from 1 to 64"),
        ('[[rules]]\nname = "r"\nhome = true\nmqtt = "a"\n', "line 8: the rule 'r' is of the home; add [home] name"),
    ],
)
def test_what_a_home_cannot_be_is_refused_with_the_place(tmp_path, text, told):
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, text)
    assert told in str(refused.value)
