"""A label that is switched off, on a running device with a real broker: it costs nothing, and needs no teaching."""

import pytest

from edge_client.storage.label_keys import label_key
from tests.support.edge_process import wait_for
from tests.support.mqtt_broker import Broker, Reader, needs_broker, starting
from tests.support.sounds import write_clips
from tests.support.taught_device import PlayingDaemon

pytestmark = [pytest.mark.slow, needs_broker]

SECTIONS = """teach_epochs = 60
[detector]
unknown_refractory_s = 1
[clips]
detected_count = 20
[mqtt]
host = "127.0.0.1"
port = {port}
"""
# Windows in which each recording is played several times.
_MANY = 100


def test_a_label_that_is_off_costs_nothing_and_comes_back_at_once(tmp_path):
    with starting() as start:
        broker = start(Broker, tmp_path)
        reader = start(Reader, broker)
        with PlayingDaemon(tmp_path / "shelf", SECTIONS.format(port=broker.port)) as device:
            write_clips(device.folder / "recordings", "yes", 4, seed=9)
            device.teach({"kettle": "yes", "bell": "no"}, 8)
            device.start()
            base = f"auricle/{device.device_state().identity.load().device_id}/label/{label_key('kettle')}/listen"
            wait_for(lambda: heard(device), what="an event of the kettle")
            taught = device.device_state().model.taught()

            reader.client.publish(f"{base}/set", "OFF", qos=1)
            become(reader, base, b"OFF")
            wait_for(lambda: "kettle" in device.status().get("off", ()), what="a status that says it")
            wait_for(lambda: "kettle" not in device.status()["sensitivity"], what="a detector without it")
            windows_go_by(device, _MANY // 5)  # what was heard before may be on its way yet
            kept = len(heard(device)), device.count("detected"), device.count("questions"), device.count("unknown")
            windows_go_by(device, _MANY)
            now = len(heard(device)), device.count("detected"), device.count("questions"), device.count("unknown")
            assert now == kept
            assert "'kettle' is not listened for: you switched it off" in device.command("status").stdout

            device.command("clips", "listen", "kettle", "--on")
            become(reader, base, b"ON")
            before = len(heard(device))
            wait_for(lambda: len(heard(device)) > before, what="the kettle again")
            assert device.device_state().model.taught() == taught
            assert device.end() == 0
            assert "Traceback" not in device.log()


def heard(device):
    return [event for event in device.events() if event["label"] == "kettle"]


def windows_go_by(device, count):
    until = device.status()["listening"]["windows"] + count
    wait_for(lambda: device.status()["listening"]["windows"] > until, what=f"{count} windows")


def become(reader, topic, payload):
    while reader.next(topic).payload != payload:
        continue
