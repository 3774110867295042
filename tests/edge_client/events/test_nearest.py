"""Of several devices that heard one sound the nearest is named once, whatever delays, clocks and failures."""

import dataclasses
import itertools
import json
import random
import socket
import threading
import time

import pytest

from edge_client.events import Event
from edge_client.events.mqtt import MqttSection, MqttSink
from edge_client.events.nearest import WINDOW_S, Election, Hearing, NearestDevice, nearest
from tests.support.mqtt_broker import Broker, Reader, needs_broker


def hearing(device, level, label="siren", class_id="", number=0):
    return Hearing(f"{device}-{label}-{number}", device, device.upper(), "", label, class_id, level)


class Fleet:
    """Devices behind a broker, in simulated time: a message reaches the broker late, and each device later still."""

    def __init__(self, names, seed=0, delay_s=0.2):
        self.rng, self.delay_s = random.Random(seed), delay_s
        self.devices = {name: Election(name) for name in names}
        self.now_s, self.queue, self.results = 0.0, [], []
        self.numbers = itertools.count()
        self.busy_s = dict.fromkeys(names, 0.0)  # when a device's connection is free: messages keep their order

    def at(self, moment_s, what):
        self.queue.append((moment_s, next(self.numbers), what))

    def say(self, name, moment_s, message, delay_s=None):
        def arrive():
            for each in self.devices:
                self.busy_s[each] = max(self.busy_s[each], self.now_s + self.rng.uniform(0, self.delay_s))
                self.at(self.busy_s[each], lambda each=each: self.receive(each, message))

        def send():
            if name in self.devices:
                if isinstance(message, Hearing):
                    self.devices[name].sent(message, self.now_s)
                self.at(self.now_s + (self.rng.uniform(0, self.delay_s) if delay_s is None else delay_s), arrive)

        self.at(moment_s, send)

    def receive(self, name, message):
        if name not in self.devices:
            return
        if isinstance(message, Hearing):
            if not self.devices[name].heard(message, self.now_s):
                self.say(name, self.now_s, ("late", frozenset([message.id])))
        else:
            self.devices[name].decided(message[1], self.now_s, late=message[0] == "late")

    def run(self, until_s):
        while self.now_s < until_s:
            due = sorted(one for one in self.queue if one[0] <= self.now_s)
            self.queue = [one for one in self.queue if one[0] > self.now_s]
            for _, _, what in due:
                what()
            for name, election in list(self.devices.items()):
                for group in election.due(self.now_s):
                    ids = frozenset(one.id for one in group)
                    election.decided(ids, self.now_s)
                    self.results.append((nearest(group).device, len(group)))
                    self.say(name, self.now_s, ("result", ids))
            self.now_s += 0.01
        return self.results


@pytest.mark.parametrize("seed", range(20))
def test_one_sound_has_one_nearest_device_whatever_the_delays(seed):
    fleet, rng = Fleet("abcde", seed), random.Random(seed)
    levels = {name: rng.uniform(5, 40) for name in "abcde"}
    for sound in range(3):
        for name, level in levels.items():
            fleet.say(name, 10 * sound + rng.uniform(0, 1), hearing(name, level, number=sound))
    assert fleet.run(30) == 3 * [(max(levels, key=levels.get), 5)]


def test_different_sounds_are_decided_apart_and_a_class_of_the_fleet_goes_before_the_word():
    fleet = Fleet("ab")
    for name, level in (("a", 10.0), ("b", 20.0)):
        fleet.say(name, 0, hearing(name, level, label=f"siren of {name}", class_id="c1"))
        fleet.say(name, 0, hearing(name, -level, label="Bell" if name == "a" else "bell"))
    assert sorted(fleet.run(5)) == [("a", 2), ("b", 2)]


def test_where_the_first_device_is_gone_the_next_one_decides():
    fleet = Fleet("abc", delay_s=0.01)
    for turn, name in enumerate("abc"):
        fleet.say(name, 0.1 * turn, hearing(name, 10.0 + turn))
    fleet.run(1.0)
    del fleet.devices["a"], fleet.devices["b"]
    assert fleet.run(10) == [("c", 3)]


def test_a_message_that_is_late_makes_no_second_sound_and_the_next_sound_is_found():
    fleet = Fleet("ab", delay_s=0.01)
    fleet.say("a", 0, hearing("a", 10.0))
    fleet.say("b", 0.1, hearing("b", 20.0), delay_s=4.0)
    fleet.say("b", 6, hearing("b", 20.0, number=1))
    assert fleet.run(12) == [("a", 1), ("b", 1)]
    assert not any(election.waits for election in fleet.devices.values())


def test_what_a_stranger_sends_is_bounded_and_refused():
    election = Election("a")
    for number in range(5_000):
        election.heard(hearing("x", 1.0, label=f"{number % 500}", number=number), 0.0)
    held = sum(len(waiting) for waiting in election._waiting.values())
    assert held <= 64 * 32
    assert election.due(1e6) == []
    good = dataclasses.asdict(hearing("a", 1.0))
    assert Hearing.read(good) == hearing("a", 1.0)
    broken = [
        {"label": 3},
        {"above_noise_db": float("nan")},
        {"above_noise_db": True},
        {"name": "x" * 101},
        {"more": 1},
    ]
    for changes in broken:
        with pytest.raises(ValueError, match=r"keys|text|level"):
            Hearing.read(good | changes)
    device = NearestDevice("a", lambda *_: None)
    try:
        for document in ([], {"ids": 3}, {"ids": [3]}, {"ids": ["x"] * 1000}, "x", None):
            with pytest.raises(ValueError, match=r"keys|ids"):
                device.take(document)
    finally:
        device.close()


class SlowLine:
    """A way to the broker on which all that a device sends takes a while."""

    def __init__(self, port, delay_s):
        self.delay_s, self.broker = delay_s, port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        inside, _ = self.listener.accept()
        outside = socket.create_connection(("127.0.0.1", self.broker))
        threading.Thread(target=self.pass_on, args=(outside, inside, 0.0), daemon=True).start()
        self.pass_on(inside, outside, self.delay_s)

    def pass_on(self, source, target, delay_s):
        try:
            while data := source.recv(1 << 16):
                threading.Event().wait(delay_s)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:  # the test is over
            return

    def close(self):
        self.listener.close()


@needs_broker
def test_devices_with_slow_lines_and_wrong_clocks_name_the_nearest_once(tmp_path, start):
    broker = start(Broker, tmp_path)
    reader = start(Reader, broker)
    devices, levels = {}, {"hall": 12.0, "kitchen": 31.5, "garage": 20.0}
    for index, name in enumerate(levels):
        line = start(SlowLine, broker.port, 0.15 * index)
        section = MqttSection(host="127.0.0.1", port=line.port, nearest=True)
        devices[name] = start(MqttSink, section, f"{index}" * 32, name)
        reader.next(f"auricle/{index}{f'{index}' * 31}/availability")
    clocks = {"hall": 0.0, "kitchen": -86_400.0, "garage": 1e9}
    for name, level in levels.items():
        event = Event(time.time() + clocks[name], "detected", "siren", None, 0.9, -20.0, above_noise_db=level)
        devices[name].publish(event)
    result = json.loads(reader.next("auricle/nearest").payload)
    assert (result["name"], result["device"], result["heard_by"]) == ("kitchen", "1" * 32, 3)
    assert (result["label"], result["above_noise_db"], result["class_id"]) == ("siren", 31.5, None)
    devices["hall"].publish(Event(time.time(), "detected", "bell", "c9", 0.9, -20.0, above_noise_db=3.0))
    second = json.loads(reader.next("auricle/nearest").payload)  # and no other result of the first sound between
    assert (second["name"], second["label"], second["heard_by"]) == ("hall", "bell", 1)


@needs_broker
def test_without_it_a_device_subscribes_to_nothing_and_tells_nobody(tmp_path, start):
    broker = start(Broker, tmp_path)
    reader = start(Reader, broker)
    sink = start(MqttSink, broker.config(), "0" * 32, "hall")
    reader.next(f"auricle/{'0' * 32}/availability")
    sink.publish(Event(time.time(), "detected", "siren", None, 0.9, -20.0, above_noise_db=3.0))
    sink.close()
    topics = []
    while not topics or not topics[-1].endswith("availability"):
        topics.append(reader.messages.get(timeout=60).topic)
    assert not [topic for topic in topics if "nearest" in topic]
    assert WINDOW_S > 1
