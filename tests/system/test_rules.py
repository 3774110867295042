"""Rules of a whole device: an unknown sound, a level, a broker's message, and a test that somebody asks for."""

import json

import pytest

from edge_client.home.arbitration import Hearing
from tests.support.edge_process import wait_for
from tests.support.mqtt_broker import Broker, Reader, needs_broker, starting
from tests.support.receiver import Receiver
from tests.support.sounds import write_clips
from tests.support.taught_device import PlayingDaemon

pytestmark = [pytest.mark.slow, needs_broker]
SECTIONS = """
[mqtt]
host = "127.0.0.1"
port = {port}
[detector]
unknown_refractory_s = 1
[[rules]]
name = "strange"
labels = ["unknown"]
webhook = "{url}/strange"
mqtt = "home/strange"
pause_min = 1000
[home]
name = "villa"
[[rules]]
name = "anywhere"
home = true
labels = ["doorbell"]
mqtt = "home/anywhere"
[[rules]]
name = "loud"
louder_than_db = -70
louder_for_s = 0
webhook = "{url}/loud"
[[rules]]
name = "nowhere"
labels = ["nothing"]
program = "nothing"
"""


def test_a_device_tells_what_its_rules_say_and_shows_what_it_could_not_tell(tmp_path):
    receiver = Receiver()
    with starting() as start:
        broker = start(Broker, tmp_path)
        reader = start(Reader, broker)
        sections = SECTIONS.format(port=broker.port, url=receiver.url)
        with PlayingDaemon(tmp_path / "shelf", sections) as device:
            write_clips(device.folder / "recordings", "yes", 6, seed=9)
            device.start()
            told = wait_for(lambda: [one for one in receiver.requests if one[0] == "/strange"], what="a webhook")
            assert json.loads(told[0][2])["rule"] == "strange"
            assert json.loads(reader.next("home/strange").payload)["label"] == "unknown"
            # Another device of the home hears what this one does not; this one says that the event is over.
            other = Hearing("1", "event", "doorbell", "other", "other/", "attic", 20.0, -20.0, 0.9)
            wait_for(lambda: device.status().get("home") == {"devices": ["shelf"]}, what="the home")
            reader.client.publish("auricle/home/villa", other.to_message(), qos=1)
            told = json.loads(reader.next("home/anywhere").payload)
            assert (told["label"], told["first"], told["message"][:12]) == ("doorbell", "attic", "doorbell at ")
            assert "home      shelf" in device.command("status").stdout
            loud = wait_for(lambda: [one for one in receiver.requests if one[0] == "/loud"], what="a level")
            assert json.loads(loud[0][2])["kind"] == "loud"
            assert device.command("rules", "--test", "strange").stdout == "done: mqtt, webhook\n"
            assert any(document.get("test") for document in receiver.documents)
            assert json.loads(reader.next("home/strange").payload)["test"] is True
            failed = device.command("rules", "--test", "nowhere", check=False)
            assert failed.returncode == 1
            assert "rules.d/nothing: No such file or directory" in failed.stderr
            assert "there is no rule 'x'; there are: strange, anywhere, loud, nowhere" in (
                device.command("rules", "--test", "x", check=False).stderr
            )

            def listed():
                return json.loads(device.command("rules", "--json").stdout)

            # Its room is loud again and again: a moment comes at which all of that is told.
            wait_for(lambda: [one["waiting"] for one in listed()["rules"]] == [0, 0, 0, 0], what="that nothing waits")
            assert [one["does"] for one in listed()["rules"]] == [
                ["mqtt", "webhook"],
                ["mqtt"],
                ["webhook"],
                ["program"],
            ]
            assert listed()["lost"] == 0
            assert device.end() == 0
            assert "Traceback" not in device.log()
        stopped = device.command("rules", "--test", "strange", check=False)
        assert "the daemon does not run" in stopped.stderr
    receiver.close()
