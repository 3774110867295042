"""The listening loop: events to the sinks, news of the model without a gap, and never behind the stream."""

import dataclasses
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.listening.idle import idle_mb
from edge_client.config.sections import DetectorConfig
from edge_client.daemon import listening_loop
from edge_client.daemon.listening_loop import ListeningLoop
from edge_client.detection.detector import Loaded
from edge_client.errors import AudioError, StateError
from edge_client.events import Sink
from edge_client.events.publisher import Publisher
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.bundle.labels import LabelMap
from tests.support.edge_process import EdgeDaemon, wait_for
from tests.support.sound_stream import SoundStream

CONFIG = DetectorConfig()
RATE = 14_400


class Kept(Sink):
    """A sink that keeps what it gets."""

    def __init__(self):
        self.events, self.labels, self.ended = [], [], []

    def follow(self, event):
        if event.ended is not None:
            self.ended.append(event)

    def publish(self, event):
        self.events.append(event)

    def announce(self, labels):
        self.labels.append(tuple(labels))


class Running:
    """A listening loop at work."""

    def __init__(self, bundle, **arguments):
        self.source, self.sink, self.unknown, self.beats = SoundStream(), Kept(), [], []
        self.model = ModelRuntime.open(bundle)
        self.label_map = LabelMap(self.model.manifest.capacity)
        self.loop = ListeningLoop(
            self.source,
            lambda: self.load(),
            arguments.get("config", CONFIG),
            Publisher([self.sink], self.unknown.append),
            lambda: self.beats.append(time.monotonic()),
        )
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.loop.run, args=[self.stop], daemon=True)

    def load(self):
        return Loaded(self.model, self.label_map)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join(180)
        assert not self.thread.is_alive()

    def hear(self, samples, block=RATE // 4):
        """Let it hear a sound as fast as it can listen, without ever being behind."""
        for start in range(0, len(samples), block):
            self.source.put(samples[start : start + block])
            self.source.wait_until_read()


@pytest.fixture
def running(bundles, monkeypatch):
    """A loop for which no time passes that a busy machine gives to others: sound goes on, and no hop takes longer."""
    monkeypatch.setattr(listening_loop, "_BROKEN_S", 600.0)
    own = SimpleNamespace(monotonic=time.monotonic, time=time.time, perf_counter=time.thread_time)
    monkeypatch.setattr(listening_loop, "time", own)
    with Running(bundles["cnn2"]) as one:
        yield one


def quiet(seconds):
    return np.random.default_rng(0).normal(scale=0.005, size=round(seconds * RATE)).astype(np.float32)


def bang():
    """A bang, and 3 s of background around it."""
    sound = quiet(5.0)
    sound[2 * RATE : 3 * RATE] += 0.5 * np.exp(-np.arange(RATE) / 2500) * np.random.default_rng(1).standard_normal(RATE)
    return sound


def test_an_unknown_sound_goes_to_the_sinks_and_with_its_window_to_whoever_keeps_it(running):
    running.hear(bang())
    wait_for(lambda: running.unknown)
    (heard,), (event,) = running.unknown, running.sink.events
    assert heard.event is event
    assert event.kind == "unknown"
    assert abs(event.time - time.time()) < 60
    assert heard.sound.shape == (RATE,)
    assert np.abs(heard.sound).max() > 0.3


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # of a loop that ends so
@pytest.mark.parametrize("failing", ["gives nothing", "is gone", "is stopped"])
def test_a_sound_that_goes_on_ends_with_its_microphone(bundles, failing):
    running = Running(bundles["cnn2"], config=DetectorConfig(over_after_s=0.5))
    label_map = running.label_map.add("bell").add("cup")
    running.load = lambda: Loaded(
        running.model, label_map, thresholds={"bell": 0.0, "cup": 0.0}, lasting=frozenset({"bell", "cup"})
    )
    running.loop.reload()
    own_s, running.loop._over_after_s = running.loop._over_after_s, 600.0  # however long this machine stands still
    with running:
        running.hear(quiet(5.0))
        wait_for(lambda: running.sink.events, what="a sound")
        if failing == "gives nothing":
            running.loop._over_after_s = own_s
        if failing == "is gone":
            running.source.read = gone
        if failing == "is stopped":
            running.stop.set()
        begun = running.sink.events
        wait_for(lambda: len(running.sink.ended) == len(begun), what="its end")
        for begin, end in zip(begun, running.sink.ended, strict=True):
            assert end == dataclasses.replace(begin, ended=end.ended)
            assert begin.time <= end.ended <= time.time()
        if failing == "gives nothing":  # and goes on where it is heard afterwards
            before = len(running.sink.ended)
            running.hear(quiet(8.0))
            wait_for(lambda: len(running.sink.ended) > before, what="its later end")
            assert running.sink.ended[before].ended > running.sink.ended[0].ended


def gone(_samples, _timeout_s):
    raise AudioError("the microphone is gone")


def test_what_it_counts(running):
    assert running.loop.counters()["latency_ms"] is None
    running.hear(quiet(5.0))
    wait_for(lambda: running.loop.counters()["windows"] == 17)
    counted = running.loop.counters()
    assert counted["frames"] == 5 * RATE
    assert counted["skipped"] == counted["gated"] == counted["overflows"] == counted["reopened"] == 0
    assert 0 < counted["latency_ms"] <= counted["latency_95th_ms"] < 1000
    assert 0 < counted["real_time_factor"] < 1
    assert counted["level_db"] == pytest.approx(20 * np.log10(0.005), abs=0.5)
    age = counted["last_frame_age_s"]
    wait_for(lambda: running.loop.counters()["last_frame_age_s"] >= age + 0.1)


def test_sound_that_it_cannot_keep_up_with_is_skipped_and_never_piles_up(running, caplog):
    running.hear(quiet(2.0))
    running.source.put(quiet(60.0))  # as after a minute in which another process had the processor
    running.source.wait_until_read()
    wait_for(lambda: sum(running.loop.counters()[name] for name in ("windows", "skipped")) == 245)
    counted = running.loop.counters()
    assert counted["frames"] == 62 * RATE
    # Of the minute's 240 hops, those that had come when it looked; on a busy machine it may look before all have.
    assert counted["skipped"] >= 120
    assert "was kept waiting" in caplog.text  # the detector takes a small part of the time: it is not the reason
    assert "too slow" not in caplog.text


def test_a_board_that_is_too_slow_is_told_so(bundles, caplog):
    class Slow(ModelRuntime):
        def predict(self, *arguments):
            time.sleep(0.2)
            return super().predict(*arguments)

    with Running(bundles["cnn2"]) as one:
        one.model = Slow.open(bundles["cnn2"])
        one.label_map = one.label_map.add("yes").add("no")
        one.loop.reload()
        one.hear(quiet(2.0))
        one.source.put(quiet(20.0))
        wait_for(lambda: "skipped" in caplog.text)
    assert "this board is too slow" in caplog.text
    assert "hop_s" in caplog.text


def test_new_labels_are_taken_up_while_sound_goes_on(running):
    running.hear(quiet(2.0))
    running.label_map = running.label_map.add("yes").add("no")
    running.loop.reload()
    running.hear(quiet(2.0))
    wait_for(lambda: running.sink.labels == [(), ("yes", "no")])
    assert running.loop.counters()["frames"] == 4 * RATE
    wait_for(lambda: running.loop.counters()["windows"] == 13)
    assert running.loop.counters()["skipped"] == 0


def test_a_model_that_cannot_be_loaded_leaves_the_old_one_listening(running):
    def damaged():
        raise StateError("model.safetensors is damaged")

    running.load = damaged
    with pytest.raises(StateError):
        running.loop.reload()
    running.hear(bang())
    wait_for(lambda: running.unknown)


def test_a_source_that_never_gave_sound_or_fell_silent_is_waited_for(running):
    wait_for(lambda: len(running.beats) > 1)  # it never gave sound
    running.hear(quiet(1.0))
    before = len(running.beats)
    wait_for(lambda: len(running.beats) > before + 3)


def test_a_process_that_listens_stays_below_70_mb(bundles, tmp_path):
    device = EdgeDaemon(tmp_path, "cnn2", "")
    state = device.device_state()
    saved = state.model.load(bundles["cnn2"])
    label_map = saved.progress.label_map.add("yes").add("no")
    weights = {name: array + 1 for name, array in saved.bundle.weights.items()}
    state.model.save(saved.bundle.weights, weights, dataclasses.replace(saved.progress, label_map=label_map))
    assert idle_mb(device.config) < 70
