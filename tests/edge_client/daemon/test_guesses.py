"""What a sound that nobody taught may be, as a daemon says it: its events, a real broker, the journal, commands."""

import json
import os

import numpy as np
import pytest
import soundfile

from fleet_protocol.ground import sample_sounds
from tests.edge_client.events.test_home_assistant import BASE
from tests.support.edge_process import BRISK, EdgeDaemon, wait_for
from tests.support.mqtt_broker import Broker, Reader, needs_broker
from tests.support.sound_server import no_sound_devices

pytestmark = pytest.mark.slow
ALARMS = {"smoke detector", "buzzer", "alarm clock"}
DETECTOR = "[detector]\nunknown_refractory_s = 1.0\n"


def device_that_plays(folder, bundle, sections=""):
    """A device that is taught nothing, and hears an alarm again and again."""
    one = EdgeDaemon(folder, bundle, f'[microphone]\nfile = "recordings"\n{BRISK}{DETECTOR}{sections}')
    (folder / "recordings").mkdir()
    rng = np.random.default_rng(3)
    alarm = sample_sounds.takes("alarm", 1, 48_000, rng)[0]
    quiet = rng.normal(scale=1e-3, size=80_000).astype(np.float32)
    soundfile.write(folder / "recordings" / "alarm.wav", np.concatenate([quiet, alarm, quiet]), 16_000)
    return one


@needs_broker
def test_an_unknown_sound_comes_with_a_guess_on_every_way(tmp_path, start):
    (tmp_path / "broker").mkdir()
    broker = start(Broker, tmp_path / "broker")
    reader = start(Reader, broker)
    mqtt = f'[mqtt]\nhost = "127.0.0.1"\nport = {broker.port}\n'
    with device_that_plays(tmp_path / "shelf", "sounds_2s", mqtt) as device:
        device.start(os.environ | no_sound_devices(device.folder))
        guesses = wait_for(lambda: [one["guess"] for one in device.events() if "guess" in one], what="a guess")
        assert ALARMS & set(guesses[0].split(", "))
        topic = f"auricle/{device.device_state().identity.load().device_id}/event"
        assert topic.partition("/")[0] == BASE.partition("/")[0]
        told = json.loads(reader.next(topic).payload)
        while "guess" not in told:
            told = json.loads(reader.next(topic).payload)
        # The broker misses what is heard before the first connection to it.
        (same,) = wait_for(lambda: [one for one in device.events() if one["time"] == told["time"]], what="its line")
        assert (told["event_type"], told["guess"]) == ("unknown", same["guess"])

        def listed():
            found = json.loads(device.command("label", "--json", check=False).stdout)
            return [one for one in found if one["guess"]]

        wait_for(lambda: guesses[0] in {one["guess"] for one in listed()}, what="the guess in the list")
        assert f"perhaps: {guesses[0]}" in device.command("label").stdout
        assert f"perhaps: {guesses[0]}" in device.command("events").stdout
        assert guesses[0] in device.command("events", "--csv").stdout
        assert device.end() == 0
    assert "Traceback" not in device.log()


def test_a_bundle_whose_network_has_no_names_goes_on_and_guesses_nothing(tmp_path):
    with device_that_plays(tmp_path / "shelf", "base") as device:
        device.start(os.environ | no_sound_devices(device.folder))
        event = wait_for(lambda: [one for one in device.events() if one["kind"] == "unknown"], what="an event")[0]
        assert "guess" not in event
        wait_for(lambda: json.loads(device.command("label", "--json").stdout), what="the kept sound")
        assert "perhaps" not in device.command("label").stdout
        assert device.end() == 0
