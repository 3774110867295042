"""Days of a device, lived by the product's own functions at a clock of the test, until somebody kills this process.

usage: python -m tests.support.lived_device CONFIG SEED NOW UNTIL WHEN WHAT LINES HOUR...

Starts as a daemon does at NOW, seconds since 1970, and waits for a line on its standard input. Then it lives the hours
of each day to UNTIL, and waits again. From WHEN on it is killed at so many lines of code after it says WHAT; with 0
LINES it never is. It says on its standard output what it is about to do, and what is done, a line of JSON each: the
moment, what, and about what.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

from edge_client.config import load_config
from edge_client.detection.doubts import Doubt
from edge_client.errors import EdgeError
from edge_client.learning.forgotten_labels import forget_noted
from edge_client.learning.teaching.job import to_teach
from edge_client.learning.teaching.room_material import night_is_due
from edge_client.learning.worker import run
from edge_client.owner import Teaching
from edge_client.owner_changes import changes, delete, purge, undo
from edge_client.questions.answers import answer, answers, finish_all, open_questions, store_of
from edge_client.questions.asking import Asker
from edge_client.questions.store import DAY_S, NEVER, NO, SAYINGS, WAS, YES, sound_of
from edge_client.room.memory import RoomMemory, layout_of
from edge_client.room.store import read_sample
from edge_client.storage.device_state import DeviceState
from edge_client.storage.saved_model import ModelStore
from fleet_protocol.bundle import read_bundle
from fleet_protocol.tensors import digest, pack
from tests.support.checkout import ROOT

HOUR_S, SUNDAY = 3600.0, 6
OWN = "door"
"""Label whose clips are added and deleted by hand; no answer names it."""
ASKED = ("kettle", "bell")
# What changes files; lines of code are counted there.
WRITERS = (
    *(str(ROOT / "edge_client" / name) for name in ("clips", "questions", "storage", "owner_changes.py")),
    *(str(ROOT / name) for name in ("fleet_protocol/atomic_files.py", "edge_client/room/store.py")),
)


class Clock:
    """Stands in for `time.time`: no two moments are the same."""

    def __init__(self, now):
        self.now = now

    def __call__(self):
        self.now += 0.001
        return self.now


class LivedDevice:
    def __init__(self, config_path, rng, clock, when, what, lines):
        self.path, self.rng, self.clock = config_path, rng, clock
        self.killed, self.lines = (when, what), lines
        self.config = load_config(config_path)
        self.state = DeviceState(self.config.device.state)
        manifest = read_bundle(self.config.bundle).manifest
        self.layout = layout_of(manifest, self.config.detector)
        self.statistics = manifest.embedding_statistics
        self.settings = manifest.feature_settings
        self.announce_models()
        self.say("starts")
        self.state.remove_leftovers()
        self.state.mend()
        self.room = RoomMemory(self.layout, self.state, clock)
        rate_hz, per_day = self.settings.sample_rate_hz, self.config.learning.questions
        self.asker = Asker(store_of(self.teaching), self.state, self.statistics, per_day, rate_hz, clock)
        self.tidy()
        self.say("started")

    @property
    def teaching(self):
        """The device as a command opens it."""
        return Teaching.open(self.path)

    def say(self, *words):
        os.write(1, (json.dumps([self.clock.now, *words]) + "\n").encode())
        when, what = self.killed
        if self.lines and self.clock.now >= when and words[0] == what:
            sys.settrace(self._count)

    def _count(self, frame, _event, _argument):
        if not frame.f_code.co_filename.startswith(WRITERS):
            return None
        self.lines -= 1
        if self.lines <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return self._count

    def announce_models(self):
        """Say of each model that is saved, by its weights that listen, when that begins and when it is done."""
        save = ModelStore.save

        def announced(store, trained, listening, progress):
            about = digest(pack(listening, {}))
            self.say("saving model", about)
            save(store, trained, listening, progress)
            self.say("saving model done", about)

        ModelStore.save = announced

    def tidy(self):
        """What a daemon does at its start, and again and again."""
        teaching = self.teaching
        teaching.store.tidy()
        teaching.trash.empty()
        self.attempt("forgetting", lambda: forget_noted(self.config, self.state))
        self.attempt("finishing", lambda: finish_all(teaching.store, teaching.state, store_of(teaching)))
        self.asker.changed(ASKED)

    def attempt(self, what, action, *about):
        """Do something; return whether it was done. A full disk may refuse it, in part or whole."""
        self.clock.now += float(self.rng.uniform(1, 120))
        self.say(what, *about)
        try:
            action()
        except OSError as error:
            self.say("failed", what, str(error))
            return False
        except EdgeError as error:
            self.say("refused", what, str(error))
            return False
        self.say(f"{what} done", *about)
        return True

    def live(self, moment):
        """Live the hour that begins at a moment."""
        self.clock.now = max(self.clock.now, moment)
        self.tidy()
        self.hear()
        for _ in range(2):
            self.consider()
        for question in open_questions(self.teaching):
            if self.rng.random() < 0.5:
                self.answer(question)
        for action, chance in ((self.undo, 0.2), (self.add, 0.3), (self.delete, 0.2)):
            if self.rng.random() < chance:
                action()
        if time.gmtime(moment).tm_wday == SUNDAY and self.rng.random() < 0.5:
            self.attempt("purging", lambda: purge(self.teaching))
        self.learn()

    def hear(self):
        self.room.follow()
        for _ in range(50):
            rows = self.rng.normal(size=(self.layout.block, self.layout.numbers)).astype(np.float32)
            detected = str(self.rng.choice(ASKED)) if self.rng.random() < 0.02 else ""
            for row, score in zip(rows, self.rng.beta(1, 8, len(rows)), strict=True):
                self.room.look(row, float(score), detected)
                detected = ""
        self.say("saving")
        self.room.save()
        kept = read_sample(self.state.room_path, self.layout)
        if kept is not None:
            self.say("kept", kept.heard_hours)

    def consider(self):
        window = (0.1 * self.rng.standard_normal(self.settings.clip_samples)).astype(np.float32)
        embedding = self.rng.normal(size=self.layout.numbers).astype(np.float32)
        detected, margin = bool(self.rng.random() < 0.5), float(self.rng.uniform(-1, 1))
        doubt = Doubt(self.clock(), str(self.rng.choice(ASKED)), detected, 0.7, margin, window, embedding)
        found, _ = sound_of(window, self.settings.sample_rate_hz)
        self.say("considering", found)
        self.asker.consider(doubt)
        if any(one.question_id == found for one in self.asker.store.open_questions(self.clock())):
            self.say("asked", found)

    def answer(self, question):
        says = str(self.rng.choice(SAYINGS))
        label = str(self.rng.choice((*ASKED, "cup"))) if says == WAS else ""
        said = YES if label == question.label else says
        denied = f"_not_/{question.label}" if question.detected else ""
        folder = {YES: question.label, NO: denied, WAS: label, NEVER: ""}[said]
        given = question.question_id
        self.attempt("answering", lambda: answer(self.teaching, given, says, label), given, said, folder)

    def undo(self):
        """Take back an answer or a deletion."""
        teaching = self.teaching
        if not (found := changes(teaching)):
            return
        change = found[int(self.rng.integers(len(found)))]
        if change.kind == "answered":
            said = [one.question for one in answers(teaching)]
            (about,) = [one.question_id for one in said if one.number == change.number]
            self.attempt("taking back", lambda: undo(self.teaching, change), about)
        else:
            (deletion,) = [one for one in teaching.trash.deletions() if one.number == change.number]
            about = [clip.clip_id for clip in deletion.clips]
            self.attempt("putting back", lambda: undo(self.teaching, change), *about)

    def add(self):
        window, rate_hz = self.rng.standard_normal(self.settings.clip_samples), self.settings.sample_rate_hz
        window = (0.1 * window).astype(np.float32)
        self.attempt("adding", lambda: self.teaching.store.add(OWN, window, rate_hz), sound_of(window, rate_hz)[0])

    def delete(self):
        teaching = self.teaching
        clips = teaching.store.clips(OWN)
        if clips:
            chosen = [clips[index] for index in self.rng.permutation(len(clips))[:2]]
            self.attempt("deleting", lambda: delete(teaching, chosen), *(clip.clip_id for clip in chosen))

    def learn(self):
        """Learn as the daemon does: the room at night, clips that changed."""
        self.attempt("looking", self._learn_what_is_due)

    def _learn_what_is_due(self):
        if night_is_due(self.config, self.state, self.clock()) or to_teach(self.config, self.state):
            self.attempt("learning", lambda: run(self.config, None))


def main(config_path, seed, now, until, kill, hours):
    os.environ["TZ"] = "UTC"
    time.tzset()
    rng = np.random.default_rng([seed, int(now)])
    clock = time.time = Clock(now)
    device = LivedDevice(config_path, rng, clock, *kill)
    sys.stdin.readline()
    day = now - now % DAY_S
    while day < until:
        for moment in (day + hour * HOUR_S for hour in hours):
            if now < moment < until:
                device.live(moment)
        day += DAY_S
    device.say("lived")
    sys.stdin.readline()


if __name__ == "__main__":
    config, seed, now, until, when, what, lines, *hours = sys.argv[1:]
    kill = (float(when), what, int(lines))
    main(Path(config), int(seed), float(now), float(until), kill, [*map(int, hours)])
