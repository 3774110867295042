"""The daemon: keeps the device's loops running, reports their state, and ends them cleanly when asked to."""

from __future__ import annotations

import dataclasses
import logging
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from edge_client.capture.microphone import Microphone
from edge_client.capture.shared_microphone import LentMicrophone
from edge_client.clips.folders import labels_with_clips, own_labels
from edge_client.clips.store import ClipStore
from edge_client.clips.unknown_clips import DetectedClips, UnknownClips
from edge_client.config import Config, load_config
from edge_client.daemon.listening_loop import ListeningLoop, load_listening
from edge_client.daemon.pause_watch import PauseWatch
from edge_client.daemon.round_loop import RoundLoop
from edge_client.daemon.status import (
    StatusFile,
    health_of,
    listening_name,
    model_status,
    resident_mb,
    temperature_c,
    why_forgetful,
)
from edge_client.daemon.supervisor import Supervisor, notify
from edge_client.daemon.teaching_loop import TeachingLoop
from edge_client.daemon.training_process import TrainingProcess
from edge_client.detection.detector import Loaded
from edge_client.detection.observed_rates import ObservedRates
from edge_client.detection.sensitivity import together
from edge_client.events import Asked, Heard, Sink, Switch
from edge_client.events.delivery import Delivery
from edge_client.events.mqtt import MqttSink
from edge_client.events.publisher import Publisher, open_sinks
from edge_client.home.broker_link import HomeLink, HomeSink, settle_homes
from edge_client.learning.forgotten_labels import forget_noted
from edge_client.live import LiveFeed
from edge_client.logs import RateLimitedLog, set_up_log
from edge_client.model.interpreter import installed_runtime
from edge_client.model.self_test import check_runtime
from edge_client.owner import Teaching
from edge_client.owner_changes import empty_deleted
from edge_client.pauses import Pause, Pauses
from edge_client.questions.answers import OFFER, answer, finish_all
from edge_client.questions.asking import Asker
from edge_client.rules.sink import RulesSink
from edge_client.storage.device_state import DeviceState
from edge_client.storage.fleet_classes import Offer
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.errors import AuricleError
from fleet_protocol.ground.command_line import version

log = logging.getLogger(__name__)

# Seconds that the loops have to end; a long poll may last longer, and nothing is lost by leaving it.
_GRACE_S = 8.0
_POLL_S = 0.5
# Sentences about damaged files that the status shows.
_DAMAGE_KEPT = 20
# Seconds between two looks at how the daemon is.
_STATUS_S = 2.0
# Doubtful sounds that may wait for the disk, 64 kB a second, and how long their last one is waited for at the end, s.
_DOUBTS, _QUESTIONS_GRACE_S = 4, 2.0
_FEED_S = 5.0
_CLOCK_SET_S = 1.0

# Longest time without progress: one question for work, an answer's time-out and some patience.
_ROUNDS_STUCK_S = 300.0
_TEACHING_STUCK_S = 120.0
# A microphone without sound is waited for, which is progress: starting the daemon again would not bring it back, and
# would end the listening of all other inputs.
_LISTENING_STUCK_S = 60.0


def run(config_path: Path) -> int:
    """Run until SIGTERM or SIGINT; return the exit status. Raises EdgeError if the device cannot run as it is."""
    set_up_log()
    logging.getLogger("httpx").setLevel(logging.WARNING)
    stop = threading.Event()

    def ask_to_stop(number: int, _: FrameType | None) -> None:
        log.info("stopping on %s", signal.Signals(number).name)
        stop.set()

    signal.signal(signal.SIGTERM, ask_to_stop)
    signal.signal(signal.SIGINT, ask_to_stop)
    Daemon(load_config(config_path), config_path.resolve(), stop).run()
    return 0


class Daemon:
    """All of a device that runs."""

    def __init__(self, config: Config, config_path: Path, stop: threading.Event) -> None:
        """Prepare every loop. Raises EdgeError if the state is in use or damaged, or the bundle cannot be used."""
        self._config, self._config_path, self._stop = config, config_path, stop
        self._started, self._started_at = time.monotonic(), time.time()
        self._trouble = RateLimitedLog(log)
        self._damage: deque[str] = deque(maxlen=_DAMAGE_KEPT)
        self._forgets = ""
        self._state = DeviceState(config.device.state)
        self._lock = self._state.lock("daemon")
        self._state.require_own_release()
        self._file = StatusFile(self._state)
        self._put_in_order()
        manifest = read_bundle(config.bundle).manifest
        self._sample_rate_hz = rate_hz = manifest.feature_settings.sample_rate_hz
        self._store = ClipStore(config.clips_folder, config.clips, rate_hz)
        self._unknown = UnknownClips(self._state.unknown_folder, config.clips, rate_hz)
        self._detected = DetectedClips(self._state.detected_folder, config.clips, rate_hz)
        # One model for all inputs, loaded when the first of them asks for it.
        self._loading = threading.Lock()
        self._loaded: Loaded | None = None
        self._listening: dict[str, ListeningLoop | None] = dict.fromkeys(config.inputs)
        self._rates = ObservedRates.open(config, self._state.database, manifest)
        self._asker = asker = Asker.open(config, self._state, manifest)
        self._asked_at: object = None
        self._doubts = None if asker is None else Delivery("the questions", asker.consider, _DOUBTS)
        self._reload()
        self._pauses = PauseWatch(self._state, Pauses(self._state.database, config.hours))
        self._home: HomeLink | None = None
        device_id = self._state.identity.load().device_id
        self._publisher = Publisher(self._open_sinks(device_id) if config.microphone else [], self._keep_sound)
        runtime = installed_runtime() or "none"
        self._versions = {"auricle": version(), "bundle": config.bundle.stem, "runtime": runtime}
        self._training = TrainingProcess(config.training, config_path, stop, self._mend, self._reload)
        self._teaching = TeachingLoop(config, self._state, self._tidy, self._training, stop)
        self._rounds: RoundLoop | None = None
        self._supervisor = Supervisor(stop)
        if config.server is not None:
            self._rounds = RoundLoop(config, config.server, self._state, self._training, stop)
            self._supervisor.add("rounds", _ROUNDS_STUCK_S, self._rounds.run)
        self._supervisor.add("teaching", _TEACHING_STUCK_S, self._teaching.run)
        for name in config.inputs:
            self._supervisor.add(listening_name(name), _LISTENING_STUCK_S, partial(self._listen, name))

    def _open_sinks(self, device_id: str) -> list[Sink]:
        """Open what gets the events: journal, standard output and broker, then the rules and the home."""
        config, database = self._config, self._state.database
        replied = None if self._asker is None and config.server is None else self._reply
        sinks = open_sinks(config, device_id, replied, self._switch)
        broker = next((sink.say for sink in sinks if isinstance(sink, MqttSink)), None)
        rules = RulesSink(config.rules, config.device.name, database, self._config_path.parent, broker)
        sinks.append(rules)
        self._home = HomeLink.of(config, device_id, "daemon", rules.at_home)
        if self._home is not None:
            sinks.append(HomeSink(self._home))
        with self._tried("leave the home that it was in"):
            settle_homes(config, database, device_id)
        return sinks

    def _put_in_order(self) -> None:
        """Remove what a crash left, mend what is damaged, and test what computes."""
        with self._tried("remove what was half-written"):
            self._state.remove_leftovers()
        self._mend()
        check_runtime()
        for key, folder in self._config.recordings.missing_folders().items():  # its disk may be mounted later
            setting = f"[recordings] {key} = {folder}"
            log.warning(
                "%s is no folder (that this user can see): nothing is learned from it until it is; "
                "correct the path, or mount the disk",
                setting,
            )
        if self._state.model.begin_anew(self._config.bundle, labels_with_clips(self._config.clips_folder)):
            log.warning("the bundle has another front end than before: the model begins anew and learns all clips")

    def run(self) -> None:
        """Run until stopped."""
        self._supervisor.start()
        notify("READY=1", "STATUS=running")
        written = fed = 0.0
        while not self._stop.wait(_POLL_S):
            now = time.monotonic()
            with self._tried("see whether its owner paused it"):
                self._pauses.follow()
            if self._pauses.take_news():
                for sink in self._publisher.sinks:
                    sink.pause(self._pauses.pause)
                written = 0.0
            self._follow_commands()
            if (rates := self._rates) is not None and rates.follow():
                self._reload()
            self._follow_questions()
            if now - written >= _STATUS_S:
                self._write_status()
                written = now
            if now - fed >= _FEED_S:
                self._feed_watchdog()
                fed = now
        notify("STOPPING=1")
        for name in self._supervisor.join(_GRACE_S):
            log.info("left the loop %s waiting", name)
        if self._doubts is not None:
            self._doubts.close(_QUESTIONS_GRACE_S)
        self._publisher.close()
        if self._rates is not None:
            self._rates.save()
        self._write_status(last=True)

    @contextmanager
    def _tried(self, what: str) -> Iterator[None]:
        """Do what may fail, as on a full disk, and is tried again later; meanwhile the device goes on listening."""
        try:
            yield
        except (AuricleError, OSError) as error:
            self._trouble.warning(f"cannot {what}: %s", error)

    def _follow_commands(self) -> None:
        """Take up what a command changed: labels without clips, and a model that this process did not make."""
        with self._tried("take up what a command changed"):
            forget_noted(self._config, self._state)
            if self._state.model.key() != self._model_key and not self._training.status["training"]:
                self._reload()
            self._follow_choices()

    def _follow_choices(self) -> None:
        """Take up thresholds, and which labels are listened for now."""
        choices = self._state.choices
        switched_off = choices.switched_off()
        for sink in self._publisher.sinks:
            sink.switched_off(switched_off)
        chosen, off = choices.thresholds(), choices.off(time.time())
        with self._loading:
            if self._loaded is None or (self._loaded.thresholds, self._loaded.off) == (chosen, off):
                return
            self._loaded = dataclasses.replace(self._loaded, thresholds=chosen, off=off)
        for loop in filter(None, self._listening.values()):
            loop.reload()

    def _follow_questions(self) -> None:
        """Publish which questions are open, where that changed; what is a day old goes."""
        with self._tried("look after the questions"):
            before, self._asked_at = self._asked_at, self._state.database.key()
            changed = () if before != self._asked_at else None
            known = set(self._model.get("labels", ())) - self._state.choices.switched_off()
            questions = self._asker.changed(known) if self._asker else changed
            if questions is not None:
                asked = (*questions, *self._offered())
                for sink in self._publisher.sinks:
                    sink.ask(asked)

    def _offered(self) -> tuple[Asked, ...]:
        return tuple(
            Asked(f"{OFFER}{one.class_id}", one.at, one.name, False, 0.0, one.question)
            for one in self._offers()
            if one.is_asked
        )

    def _offers(self) -> tuple[Offer, ...]:
        return self._state.offers.of_others(self._label_map, own_labels(self._config.clips_folder))

    def _switch(self, switch: Switch) -> Pause | None:
        """Do what somebody switched in Home Assistant; return whether the device is paused then."""
        if not switch.label:
            return self._pauses.switch(switch)
        choices = self._state.choices
        choices.listen(switch.label, dataclasses.replace(choices.of(switch.label), on=switch.on))
        return self._pauses.pause

    def _reply(self, question_id: str, says: str, label: str) -> None:
        answer(Teaching.open(self._config_path), question_id, says, label)

    def _mend(self) -> None:
        for sentence in self._state.mend():
            log.error("%s; the memory card may be wearing out", sentence)
            self._damage.append(f"{time.strftime('%Y-%m-%d %H:%M%z')}: {sentence}")

    def _tidy(self) -> bool:
        """Delete what is too old, and what a power cut left half-written; False: some of it could not be now."""
        tidied = False
        with self._tried("delete what is too old"):
            tidied = self._store.tidy()
            for kept in (self._unknown, self._detected):
                kept.tidy()
        with self._tried("remove for good what was deleted long ago"):
            empty_deleted(self._store, self._state)
        if self._asker is not None:
            with self._tried("take up an answer"):
                finish_all(self._store, self._state, self._asker.store)
        return tidied

    def _listen(self, name: str, beat: Callable[[], None]) -> None:
        microphone, rate_hz = self._config.inputs[name], self._sample_rate_hz
        with ExitStack() as opened:
            first = microphone is self._config.microphone  # which its owner records with, and watches
            source = LentMicrophone(
                lambda closing: Microphone(microphone, rate_hz, closing),
                rate_hz,
                self._state.folder if first else None,
                self._pauses.is_paused,
            )
            opened.callback(source.close)
            opened.enter_context(self._pauses.watching(name, source))
            if feed := self._open_feed() if first else None:
                opened.callback(feed.close)
            if not first:
                source.begin()
            self._listening[name] = loop = ListeningLoop(
                source, self._load, self._config.detector, self._publisher, beat, feed, input_name=name
            )
            opened.callback(self._listening.update, {name: None})
            loop.run(self._stop)

    def _load(self) -> Loaded:
        """Return what listens from now on, one model for all inputs, with what counts and what asks."""
        with self._loading:
            if self._loaded is None:
                found = load_listening(self._config)
                self._loaded = dataclasses.replace(
                    found,
                    look=None if self._rates is None else self._rates.listener(found).look,
                    doubt=None if self._doubts is None else self._doubts.put,
                )
            return self._loaded

    def _open_feed(self) -> LiveFeed | None:
        try:
            return LiveFeed(self._state.folder, self._sample_rate_hz)
        except OSError as error:  # a disk that knows no sockets must not end the listening
            log.warning("nobody can watch live what is heard: %s", error)
            return None

    def _keep_sound(self, heard: Heard) -> None:
        event = heard.event
        with self._tried("keep the sound of an event"):
            (self._unknown if event.kind == "unknown" else self._detected).add(event.time, event.score, heard.sound)

    def _reload(self) -> None:
        self._model_key = self._state.model.key()
        progress = self._state.model.load(self._config.bundle).progress
        self._model, self._label_map = model_status(progress), progress.label_map
        with self._loading:
            self._loaded = None
        try:
            for loop in filter(None, self._listening.values()):
                loop.reload()
        except AuricleError as error:  # what listens goes on listening with the model that it has
            log.error("cannot take up the new model: %s", error)

    def _feed_watchdog(self) -> None:
        """Report to systemd that all is well; where a loop stands still it is left to start the daemon again."""
        stuck = [loop.name for loop in self._supervisor.loops.values() if loop.stuck()]
        if stuck:
            log.error("no progress: %s", ", ".join(stuck))
            notify(f"STATUS=no progress: {', '.join(stuck)}")
        else:
            notify("WATCHDOG=1", "STATUS=running")

    def _write_status(self, *, last: bool = False) -> None:
        status = self.status()
        health = health_of(status, time.time())
        for sink in self._publisher.sinks:
            sink.report(health)
        if status["forgets"] != self._forgets:
            self._forgets = status["forgets"]
            if self._forgets:
                log.error("it listens on, and cannot remember anything: %s", self._forgets)
            else:
                log.info("it can remember again")
        if self._file.in_memory or not self._forgets:
            with self._tried("write the status"):
                self._file.write(status, last=last)

    def _off(self) -> dict[str, str]:
        """Return why labels are not listened for now, by label; none where that cannot be read."""
        found: dict[str, str] = {}
        with self._tried("read what its owner listens for"):
            choices = self._state.choices
            found.update({label: choices.of(label).words for label in sorted(choices.off(time.time()))})
        return found

    def _told(self) -> dict[str, Any] | None:
        """Return what its rounds can have told of the device; None where that is nothing, or cannot be read."""
        with self._tried("read what its rounds have told"):
            return self._state.privacy.load().told(self._config.privacy.epsilon)
        return None

    def _since(self) -> float:
        """Return when the daemon started, s since 1970, as the clock has it by now, which may have been set since."""
        found = time.time() - (time.monotonic() - self._started)
        if abs(found - self._started_at) > _CLOCK_SET_S:  # else both clocks only ran a little apart
            self._started_at = found
        return self._started_at

    def status(self) -> dict[str, Any]:
        """Return what the status file says, JSON-ready; ``listening`` is the first of the ``inputs``."""
        inputs = {name: loop.counters() if loop else None for name, loop in self._listening.items()}
        offers: list[dict[str, Any]] = []
        with self._tried("read what others of the fleet teach"):
            offers = [dataclasses.asdict(one) | {"why_silent": one.why_silent} for one in self._offers()]
        return {
            "name": self._config.device.name,
            "pid": os.getpid(),
            "started": self._since(),
            "paused": self._pauses.status(),
            "awake_since": self._pauses.awake_since,
            "model": self._model | {"offers": offers},
            "loops": {loop.name: loop.to_json() for loop in self._supervisor.loops.values()},
            "listening": next(iter(inputs.values()), None),
            "inputs": inputs,
            "off": self._off(),
            "sensitivity": together([loop.hearings.to_json() for loop in self._listening.values() if loop]),
            "room": rates.status(self._config.detector.false_accepts_per_hour) if (rates := self._rates) else None,
            "server": self._rounds.status if self._rounds else None,
            "privacy": self._told(),
            "training": self._training.status,
            "teaching": self._teaching.status,
            "home": None if self._home is None else {"devices": self._home.devices},
            "mqtt": None if (trouble := self._publisher.trouble()) is None else {"trouble": trouble},
            "journal": self._publisher.stored(),
            "damage": list(self._damage),
            "forgets": why_forgetful(self._state.folder),
            "versions": self._versions,
            "board": {"temperature_c": temperature_c(), "resident_mb": resident_mb()},
        }
