"""Devices of one home agree by the broker's order which hearings are one event, whatever the delays."""

import dataclasses
import heapq
import itertools
import json

import numpy as np
import pytest

from edge_client.home.arbitration import LARGEST, Arbiter, Hearing, HomeMessageError, Over, read_message

WINDOW_S = 0.7


def hearing(device, label="stop", snr_db=10.0, number=0, purpose="event", ear=""):
    name = f"{device}/{ear}"
    return Hearing(f"{name}-{label}-{number}", purpose, label, device, name, device, snr_db, -20.0, 0.9)


class Home:
    """Arbiters and a broker, in simulated time; each way of a message takes 0 to 300 ms, in each device's order."""

    def __init__(self, devices, seed):
        self.rng, self.now, self.steps, self.count = np.random.default_rng(seed), 0.0, [], itertools.count()
        self.arbiters = {name: Arbiter(name, WINDOW_S) for name in devices}
        self.dead, self.told, self.arrived = set(), {name: [] for name in devices}, {}

    def at(self, moment, do):
        heapq.heappush(self.steps, (moment, next(self.count), do))

    def send(self, device, message):
        """Have the broker take a message after one way, and every device after another; neither way overtakes."""
        self.ordered(("to", device), lambda: [self.deliver(name, message) for name in self.arbiters])

    def ordered(self, way, do):
        moment = max(self.arrived.get(way, 0.0), self.now + self.rng.uniform(0, 0.3))
        self.arrived[way] = moment
        self.at(moment, do)

    def deliver(self, name, message):
        self.ordered(("from", name), lambda: self.take(name, message))

    def take(self, name, message):
        if name in self.dead:
            return
        arbiter = self.arbiters[name]
        if isinstance(message, Over):
            if (event := arbiter.end(message)) is not None:
                self.told[name].append(event)
        else:
            arbiter.hear(message, self.now)
        self.look_later(name)

    def look_later(self, name):
        if (pause_s := self.arbiters[name].pause_s(self.now)) is not None:
            self.at(self.now + pause_s + 1e-6, lambda: self.look(name))

    def look(self, name):
        if name not in self.dead:
            for over in self.arbiters[name].to_say(self.now):
                self.send(name, over)
            self.told[name] += self.arbiters[name].lost(self.now)
            self.look_later(name)

    def hear(self, moment, one):
        def do():
            self.arbiters[one.device].sent(one, self.now)
            self.send(one.device, one)
            self.look_later(one.device)

        self.at(moment, do)

    def run(self):
        for _ in range(10_000):
            if not self.steps:
                return
            self.now, _, do = heapq.heappop(self.steps)
            do()
        raise AssertionError("it does not come to rest")


@pytest.mark.parametrize("seed", range(40))
def test_what_several_hear_is_one_event_for_all_and_the_best_ear_comes_first(seed):
    home = Home(["hall", "kitchen", "attic"], seed)
    for number, (device, snr_db) in enumerate([("hall", 5.0), ("kitchen", 15.0), ("attic", 9.0)]):
        home.hear(1.0 + 0.03 * number, hearing(device, snr_db=snr_db))
    home.run()
    for events in home.told.values():
        assert [[one.device for one in event.heard] for event in events] == [["kitchen", "attic", "hall"]]


@pytest.mark.parametrize("seed", range(40))
def test_all_agree_whatever_is_heard_when(seed):
    home, rng = Home(["hall", "kitchen", "attic", "cellar"], seed), np.random.default_rng([seed, 1])
    for number in range(25):
        device, label = rng.choice(list(home.arbiters)), rng.choice(["stop", "go"])
        home.hear(rng.uniform(0, 8), hearing(device, label, float(rng.uniform(0, 30)), number))
    home.run()
    first, *others = home.told.values()
    assert first  # and nothing is lost, nothing told twice
    assert sorted(one.hearing_id for event in first for one in event.heard) == sorted(
        {one.hearing_id for event in first for one in event.heard}
    )
    for one in others:
        assert one == first


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("dies_at", [1.31, 1.5, 2.0])
def test_a_device_that_dies_after_it_heard_first_leaves_no_event_open(seed, dies_at):
    home = Home(["hall", "kitchen", "attic"], seed)
    home.hear(1.0, hearing("hall", snr_db=20.0))
    home.hear(1.35, hearing("kitchen", snr_db=15.0))
    home.at(dies_at, lambda: home.dead.add("hall"))
    home.run()
    assert [len(home.told[name]) for name in ("kitchen", "attic")] == [1, 1]
    assert home.told["kitchen"] == home.told["attic"]
    assert home.told["kitchen"][0].best.device == "hall"


@pytest.mark.parametrize("seed", range(20))
def test_who_hears_it_too_late_makes_an_event_of_its_own(seed):
    home = Home(["hall", "kitchen", "attic"], seed)
    home.hear(1.0, hearing("hall"))
    home.hear(3.5, hearing("attic"))
    home.run()
    assert [[one.device for one in event.heard] for event in home.told["kitchen"]] == [["hall"], ["attic"]]


def test_an_assistant_and_an_event_of_one_label_are_two_things():
    home = Home(["hall", "kitchen"], 0)
    home.hear(1.0, hearing("hall"))
    home.hear(1.0, hearing("kitchen", purpose="wake", snr_db=30.0))
    home.run()
    assert {event.best.purpose for event in home.told["hall"]} == {"event", "wake"}


def test_of_one_ear_the_better_hearing_counts_and_one_delivered_twice_counts_once():
    arbiter = Arbiter("hall", WINDOW_S)
    weak, strong = hearing("kitchen", snr_db=3.0, number=1), hearing("kitchen", snr_db=9.0, number=2)
    for one in (weak, strong, strong):
        arbiter.hear(one, 0.0)
    event = arbiter.end(Over(weak.hearing_id, "kitchen"))
    assert event is not None
    assert event.heard == (strong,)
    arbiter.hear(strong, 5.0)
    assert arbiter.pause_s(5.0) is None
    assert arbiter.end(Over(weak.hearing_id, "kitchen")) is None


def test_what_the_broker_never_gives_back_stands_alone():
    arbiter, one = Arbiter("hall", WINDOW_S), hearing("hall")
    arbiter.sent(one, 0.0)
    pause_s = arbiter.pause_s(0.0)
    assert pause_s is not None
    assert arbiter.lost(pause_s - 0.01) == []
    (event,) = arbiter.lost(pause_s)
    assert event.heard == (one,)
    arbiter.hear(one, pause_s + 1)  # it comes at last
    assert arbiter.pause_s(pause_s + 1) is None


def test_a_flood_opens_a_bounded_number_of_groups():
    arbiter = Arbiter("hall", WINDOW_S)
    for number in range(5_000):
        arbiter.hear(hearing("liar", f"word {number}", number=number), 0.0)
        arbiter.hear(hearing("liar", "stop", number=number), 0.0)
    events = arbiter.lost(100.0)
    assert 1 <= len(events) <= 64
    assert max(len(event.heard) for event in events) <= 64


GOOD = json.loads(hearing("hall").to_message())["heard"]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b"1" * 3000,
        b'{"heard": 1}',
        b'{"other": {}}',
        b'{"over": {"first": 1, "device": "x"}}',
        b'{"over": {"first": "", "device": "x"}}',
        b"[" * 1000,
        json.dumps({"heard": GOOD, "over": {"first": "a", "device": "b"}}).encode(),
        *(
            json.dumps({"heard": {**GOOD, **bad}}).encode()
            for bad in (
                {"label": "\x1b[2J"},
                {"label": 5},
                {"label": "x" * LARGEST},
                {"name": "a\nb"},
                {"name": ""},
                {"device": "d" * 101},
                {"snr_db": float("nan")},
                {"snr_db": float("inf")},
                {"snr_db": "9"},
                {"score": 10**19},
                {"purpose": "all"},
                {"more": 1},
            )
        ),
    ],
)
def test_what_is_no_message_is_refused(payload):
    with pytest.raises(HomeMessageError):
        read_message(payload)


def test_a_message_is_read_as_it_was_written():
    one = dataclasses.replace(hearing("hall"), label="Türklingel", name="Küche: mic")
    assert read_message(one.to_message().encode()) == one
    over = Over("a-1", "hall")
    assert read_message(over.to_message().encode()) == over
