"""What the tests of a device share."""

import time
from contextlib import ExitStack, closing

import pytest

from edge_client.capture.microphone import Microphone
from edge_client.config.sections import MicrophoneConfig
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.ready_bundles import find_bundle
from tests.support.edge_commands import EdgeCommands
from tests.support.mqtt_broker import starting
from tests.support.receiver import Receiver
from tests.support.taught_device import Device


@pytest.fixture(scope="session")
def manifest():
    """What the front end `base` knows, for tests of what is learned on it."""
    return read_bundle(find_bundle("base")).manifest


@pytest.fixture(scope="session")
def statistics(manifest):
    return manifest.embedding_statistics


@pytest.fixture
def device(tmp_path):
    return Device(tmp_path, find_bundle("base"))


@pytest.fixture
def edge(tmp_path, bundles, capsys):
    return EdgeCommands(tmp_path, capsys, bundles["cnn1"])


@pytest.fixture
def start():
    """Starts brokers, sinks and readers, and ends them after the test."""
    with starting() as started:
        yield started


@pytest.fixture
def open_microphone():
    """(model's rate, configuration) -> a microphone, which is closed after the test."""
    with ExitStack() as opened:
        yield lambda hz, **given: opened.enter_context(closing(Microphone(MicrophoneConfig(**given), hz)))


@pytest.fixture
def berlin(monkeypatch):
    """The local clock of Berlin; summer time begins on 29 March 2026 at 2:00, and ends on 25 October at 3:00."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def receiver():
    one = Receiver()
    yield one
    one.close()
