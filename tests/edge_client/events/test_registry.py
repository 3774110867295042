"""A sink is one file: one of this package, or one of somebody's own that an entry point names."""

import json
import subprocess
import sys

import pytest

from edge_client.config import SINK_GROUP
from edge_client.events.publisher import sink_kinds
from tests.support.checkout import ROOT
from tests.support.installed_package import install_package

# All that somebody writes to have events somewhere else.
PORCH = """
import json
from dataclasses import dataclass
from pathlib import Path

from edge_client.config.sections import require
from edge_client.events import Sink, SinkKind


@dataclass(frozen=True)
class PorchSection:
    file: Path
    colour: str = "red"
    code: str = ""

    def __post_init__(self):
        require(self.colour in ("red", "green"), "colour", self.colour, "must be red or green")


class Porch(Sink):
    def __init__(self, section):
        self.section = section

    def publish(self, event):
        with self.section.file.open("a") as file:
            file.write(json.dumps(event.to_json() | {"colour": self.section.colour, "code": self.section.code}))


def _open(device):
    return None if device.section is None else Porch(device.section)


SINK = SinkKind(name="porch", open=_open, section=PorchSection, secrets={"code": "PORCH_CODE"})
"""

# A device that hears a bang, as the daemon does.
LISTEN = """
import sys, threading
from pathlib import Path
import numpy as np
from edge_client.config import load_config
from edge_client.daemon.listening_loop import ListeningLoop, load_listening
from edge_client.events.publisher import Publisher
from edge_client.events.publisher import open_sinks
from tests.support.sound_stream import SoundStream

config = load_config(Path(sys.argv[1]))
source, stop, rng = SoundStream(), threading.Event(), np.random.default_rng(0)
rate = source.sample_rate_hz
sound = rng.normal(scale=0.005, size=5 * rate)
sound[2 * rate : 3 * rate] += 0.5 * np.exp(-np.arange(rate) / 2500) * rng.standard_normal(rate)
publisher = Publisher(open_sinks(config, "0" * 32))
loop = ListeningLoop(source, lambda: load_listening(config), config.detector, publisher, lambda: None)
thread = threading.Thread(target=loop.run, args=[stop])
thread.start()
for start in range(0, len(sound), rate // 4):
    source.put(sound[start : start + rate // 4])
    source.wait_until_read()
stop.set()
thread.join()
publisher.close()
"""


@pytest.fixture
def device(tmp_path, bundles, monkeypatch):
    """Listen with a package of somebody's own and a configuration that begins with given sections."""

    def listen(source, entry, sections):
        install_package(tmp_path / "package", "porch_light", source, SINK_GROUP, entry, monkeypatch)
        path = tmp_path / "edge.toml"
        path.write_text(
            f'{sections}\n[device]\nname = "shelf"\nstate = "state"\n[model]\nbundle = "{bundles["cnn1"]}"\n'
        )
        return subprocess.run([sys.executable, "-c", LISTEN, str(path)], cwd=ROOT, capture_output=True, text=True)

    return listen


def test_an_event_reaches_a_sink_of_somebody_s_own(device, tmp_path, monkeypatch):
    monkeypatch.setenv("PORCH_CODE", "4711")
    result = device(PORCH, "porch = porch_light:SINK", '[porch]\nfile = "events"\ncolour = "green"')
    assert result.returncode == 0, result.stderr
    event = json.loads((tmp_path / "events").read_text())
    assert (event["kind"], event["colour"], event["code"]) == ("unknown", "green", "4711")
    assert event == json.loads(result.stdout) | {"colour": "green", "code": "4711"}


def test_a_sink_that_the_configuration_does_not_name_stays_closed(device, tmp_path):
    assert device(PORCH, "porch = porch_light:SINK", "").returncode == 0
    assert not (tmp_path / "events").exists()


@pytest.mark.parametrize(
    ("source", "entry", "sections", "says"),
    [
        (PORCH, "porch = porch_light:SINK", '[porch]\nfile = "x"\ncolour = "blue"', "line 3: [porch] colour = 'blue'"),
        (
            PORCH,
            "porch = porch_light:SINK",
            "[porch]\nfiel = 'x'",
            "unknown key 'fiel' in [porch]; known: file, colour",
        ),
        (PORCH, "porch = porch_light:LIGHT", "", "'porch'"),
        (PORCH.replace('"porch"', '"mqtt"'), "mqtt = porch_light:SINK", "", "'mqtt'"),
        (PORCH.replace('"porch"', '"server"'), "server = porch_light:SINK", "", "[server] is a section of the device"),
    ],
)
def test_a_sink_that_cannot_be_used_is_named(device, source, entry, sections, says):
    result = device(source, entry, sections)
    assert result.returncode == 1
    assert says in result.stderr.splitlines()[-1]


def test_the_modules_of_the_package_are_the_kinds_that_there_are():
    assert sorted(sink_kinds()) == ["command", "journal", "mqtt", "stdout"]
