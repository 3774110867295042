"""The way of an owner, typed and clicked: from README's first command to a fleet of two that renames a sound.

A device with sample sounds, one of his own, a word taught and a wrong tap taken back, a phone's recording, all of it on
a second device, and both in a fleet. Real programs, broker and browser; recordings stand for microphones.
"""

import json
import re
import signal

import numpy as np
import pytest

from edge_client.audio.recordings import encode_wave
from tests.support.commands import OwnDesk
from tests.support.desk import free_port, next_commands
from tests.support.edge_process import BRISK, wait_for
from tests.support.mqtt_broker import Broker, Reader, Sensors, needs_broker, starting
from tests.support.sounds import RATE, melody, phone_recording, write_clips

pytestmark = [pytest.mark.slow, needs_broker, pytest.mark.timeout(1800)]


class Home(OwnDesk):
    """Where an owner types what makes a device, and what runs beside one another."""

    def typed(self, line):
        done = self.type(line)
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
        return done.stdout

    def set_up(self, folder, broker):
        """Make a device that hears recordings; it speaks to a broker, and learns as fast as a test wants."""
        self.typed(f"auricle-edge init --alone --play heard.wav --name {folder} --config {folder}/edge.toml")
        with (self.folder / folder / "edge.toml").open("a") as config:
            config.write(f'{BRISK}teach_epochs = 8\n[mqtt]\nhost = "127.0.0.1"\nport = {broker.port}\n')

    def started(self, folder):
        """Start a device's daemon."""
        log = f"{folder}-{len(list(self.folder.glob('*.log')))}.log"
        process = self.leave_running(f"auricle-edge run --config {folder}/edge.toml", log)
        self.wait_for(log, "listening for")
        return process

    def page_of(self, folder):
        """Start a device's page; return its address."""
        self.leave_running(f"auricle-edge ui --port 0 --config {folder}/edge.toml", f"{folder}-ui.log")
        self.wait_for(f"{folder}-ui.log", "http://")
        return re.search(r"http://\S+:\d+", (self.folder / f"{folder}-ui.log").read_text())[0]

    def learned(self, folder, *labels):
        """Wait until a device listens for sounds."""
        wait_for(lambda: set(labels) <= set(self.labels(folder)), what=f"{labels} in {folder}")

    def unnamed(self, folder):
        """Return the labels of a device that its fleet found and nobody named."""
        return [label for label in self.labels(folder) if label.startswith("sound-")]

    def labels(self, folder):
        """What a device listens for, as its status says, however it is: none while it starts."""
        said = self.type(f"auricle-edge status --json --config {folder}/edge.toml").stdout
        return json.loads(said).get("model", {}).get("labels", [])

    def clips(self, folder):
        files = (self.folder / folder / "state" / "clips").rglob("*.wav")
        return {(path.parent.name, path.read_bytes()) for path in files}


@pytest.fixture
def home(tmp_path):
    rng = np.random.default_rng(7)
    said = [np.pad(melody("stop", rng), (RATE, RATE)) + 0.001 * rng.normal(size=3 * RATE) for _ in range(20)]
    (tmp_path / "heard.wav").write_bytes(encode_wave(np.concatenate(said).astype(np.float32), RATE))
    for label in ("yes", "no"):
        write_clips(tmp_path / "recordings", label, 8, seed=99)
    for seed, sound in enumerate(("stop", "up", "down")):
        write_clips(tmp_path, sound, 8, seed=seed)
    found = Home(tmp_path)
    yield found
    found.close()


def test_an_owner_goes_from_the_first_command_to_a_fleet_of_two_whose_sounds_have_new_names(home, page):
    memo = phone_recording(home.folder / "memo.m4a", "zip", 3)
    trial = home.leave_running("auricle-edge try --no-browser", "try.log")
    home.wait_for("try.log", "heard ")
    trial.send_signal(signal.SIGINT)
    assert trial.wait(120) == 0

    with starting() as start:
        broker = start(Broker, home.folder)
        sensors = Sensors(start(Reader, broker))
        home.set_up("one", broker)
        running, url = home.started("one"), home.page_of("one")
        home.typed("auricle-edge import stop --label lights --config one/edge.toml")
        taps_wrongly_and_takes_it_back(page, url)
        page.get_by_label("Choose files").set_input_files(memo)
        page.locator("#chosen li").nth(2).wait_for()
        page.get_by_label("What are they recordings of?").fill("bell")
        page.get_by_role("button", name="Keep them").click()
        page.locator("#recordings-told", has_text="3 of 3 kept as bell").wait_for()
        home.learned("one", "lights", "bell")

        home.typed("auricle-edge clips export clips.zip --config one/edge.toml")
        home.set_up("two", broker)
        home.typed("auricle-edge clips import clips.zip --config two/edge.toml")
        assert home.clips("two") == home.clips("one")
        assert len(home.clips("two")) == 11

        running.send_signal(signal.SIGTERM)
        assert running.wait(120) == 0
        new = home.typed(f"auricle-aggregator new --from recordings --data fleet --port {free_port()}")
        run, join, begin = next_commands(new)
        home.leave_running(f"{run} --devices-needed 1", "server.log")
        home.wait_for("server.log", '"url"')
        for folder, sound, label in (("one", "up", "chime"), ("two", "down", "gong")):
            home.typed(f"auricle-edge import {sound} --label {label} --config {folder}/edge.toml")
            home.typed(f"auricle-edge join {join.split()[2]} --config {folder}/edge.toml")
            home.started(folder)
            home.learned(folder, "lights", "bell", label)
        assert "round 1: prototypes, 2 devices" in home.typed(begin)
        for folder, name in (("one", "front door"), ("two", "garage")):  # what the other one teaches alone
            (unnamed,) = wait_for(lambda: home.unnamed(folder), what="the other's sound")  # noqa: B023
            home.typed(f"auricle-aggregator classes rename {unnamed} '{name}' --data fleet")
        assert "round 2" in home.typed(begin)
        for folder, name, address in (("one", "front door", url), ("two", "garage", home.page_of("two"))):
            home.learned(folder, name)
            sensors.become(f"{folder}: {name}", f"{folder}: sound-")
            page.goto(f"{address}/sounds")
            named = page.locator(".cards .card").filter(has=page.get_by_role("heading", name=name, exact=True))
            named.get_by_text("from the fleet").wait_for()
            assert {"lights", "bell"} <= set(page.locator(".cards h2").all_inner_texts())
    for log in home.folder.glob("*.log"):
        assert "Traceback" not in log.read_text(), log.name


def taps_wrongly_and_takes_it_back(page, url):
    """Call a detection wrong, see that this stands in the list of changes, and undo it there."""
    page.goto(url)
    wrong = page.locator(".event[data-kind=detected]").get_by_role("button", name="That was wrong")
    wrong.first.click()
    page.locator("#told", has_text="It counts as a false alarm of lights.").wait_for()
    page.get_by_role("link", name="Sounds", exact=True).click()
    page.get_by_role("button", name="Undo: lights was heard; you said: that was wrong").click()
    page.locator("#told", has_text="Taken back").wait_for()
