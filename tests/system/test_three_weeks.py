"""Three weeks of a device's life: it is killed at random moments, its disk fills up at times, and nothing is lost.

12 kills and short days here; `make soak` makes 200 kills in whole days (AURICLE_WEEKS_KILLS).
"""

import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest

from edge_client.questions.store import DAY_S, NEVER, NO, WAS, QuestionStore
from edge_client.room.memory import layout_of
from edge_client.room.store import read_sample, read_wrong_detections
from edge_client.storage.checked_files import read_checked
from fleet_protocol.bundle import read_bundle
from fleet_protocol.tensors import digest, pack
from tests.support.asked_device import taught
from tests.support.checkout import ROOT
from tests.support.lived_device import HOUR_S, OWN

KILLS = int(os.environ.get("AURICLE_WEEKS_KILLS", "12"))
HOURS = range(24) if KILLS >= 100 else (3, 8, 13, 20)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + 10 * KILLS)]
# Monday, 5 January 2026, 0:00 UTC.
BEGIN_S = 1_767_571_200.0
DAYS = 21
# Days on which the disk is full.
FULL_DAYS = (4, 9, 16)
MEGABYTES = 24
# Bytes that are left then.
LEFT = (0, 4096, 20_000, 50_000)
# At what a device is killed that announces it, where it does so within a day.
KILLED_AT = (
    *("starts", "forgetting", "finishing", "saving", "considering", "answering", "taking back", "adding", "deleting"),
    *("putting back", "purging", "looking", "learning", "saving model"),
)
# How long after that at most, in seconds, where it is killed by the clock: at once, within a file, within a training.
DELAYS_S = (0.0, 0.001, 0.01, 0.3)
# Lines of what changes files after that at most, as a power of ten, where it is killed by their number.
LINES = 2.7
# What may lie in a state folder once a device has started, and its size in bytes at most.
FILES = {
    r"(identity\.json|model\.safetensors)(\.copy)?": 100_000,
    r"(daemon|training)\.lock|clips/\.lock": 0,
    r"embeddings\.safetensors": 5_000_000,
    r"state\.sqlite3": 300_000,
    r"state\.sqlite3-(wal|shm)": 300_000,
    r"room\.safetensors": 4_100_000,
    r"clips/(_not_/)?(kettle|bell|cup)/[\w]+\.wav": 33_000,
    rf"clips/{OWN}/[0-9a-f]{{16}}\.wav": 33_000,
    r"questions/[0-9a-f]{16}\.wav": 33_000,
    rf"trash/[0-9]{{8}}-[0-9]{{13}}/{OWN}/[0-9a-f]{{16}}\.wav": 33_000,
}
NAME = re.compile("[0-9a-f]{16}")


class SmallDisk:
    """A disk of its own, which other things may fill."""

    def __init__(self, folder):
        self.folder = folder

    def fill(self, _process, leave):
        free = os.statvfs(self.folder).f_bavail * os.statvfs(self.folder).f_frsize
        with contextlib.suppress(OSError), (self.folder / "filler").open("ab") as file:  # the device writes, too
            if leave < free:
                file.write(b"\0" * (free - leave))
            else:
                file.truncate(max(0, file.tell() + free - leave))

    def free(self, _process):
        (self.folder / "filler").unlink(missing_ok=True)


class LimitedFiles:
    """Where no disk can be mounted: no file of the device may be longer than a few bytes."""

    def __init__(self, folder):
        self.folder = folder

    def fill(self, process, leave):
        self._limit(process, leave)

    def free(self, process):
        self._limit(process, resource.RLIM_INFINITY)

    def _limit(self, process, size):
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@pytest.fixture
def disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "tmpfs", str(folder)]
    mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0
    yield SmallDisk(folder) if mounted else LimitedFiles(folder)
    if mounted:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


class Watch:
    """What an observer of a device knows: what was acknowledged, and what may or may not have been done.

    ``states``: of each sound all pairs that may be, of what its owner said, None where the device does not know it, ""
    where it asks; and of the clip store's folder that has it, "" where none has. ``silent``: sounds that may have gone
    with an answer which was taken back.
    """

    def __init__(self, device):
        self.state, self.bundle = device.state, device.config.bundle
        manifest = read_bundle(self.bundle).manifest
        self.layout = layout_of(manifest, device.config.detector)
        self.questions = QuestionStore(self.state, manifest.feature_settings.digest)
        self.now = BEGIN_S
        self.states, self.begun, self.silent = {}, None, set()
        self.heads = {self._head()}
        self.hours, self.without_denial, self.trashed = 0.0, set(), {}
        self.learned, self.hungry, self.counts = 0, False, Counter()

    def _head(self):
        return digest(pack(self.state.model.load(self.bundle).listening, {}))

    def take(self, line):
        """Take what the device says; return what happens."""
        self.now, what, *about = json.loads(line)
        self.counts[what] += 1
        if what == "kept":
            self.hours = about[0]
        elif what == "saving model":
            self.heads.add(about[0])
        elif what == "saving model done":
            self.heads = {about[0]}
        elif what == "learning done":
            self.learned, self.hungry = self.learned + 1, False
        elif what in ("considering", "asked"):
            self._may_be(about, lambda _: ("", ""), done=what == "asked")
        elif what.removesuffix(" done") in ("answering", "taking back", "adding", "deleting", "putting back"):
            self._change(what.removesuffix(" done"), about, done=what.endswith(" done"))
        elif what.removesuffix(" done") == "purging":
            self.hours, self.trashed = 0.0, {}
            self._may_be(list(self.states), lambda pair: (None, pair[1]), done=what.endswith(" done"))
            self.without_denial |= set(self.states)
        return what

    def _change(self, what, about, *, done):
        if what == "answering":
            identifier, said, folder = about
            self._may_be([identifier], lambda _: (said, folder), done=done)
            self.silent |= {identifier} if said == NEVER else set()
            self.without_denial.discard(identifier)
        elif what == "taking back":
            self._may_be(about, lambda _: ("", ""), done=done)
        else:
            self._may_be(about, lambda _: (None, "" if what == "deleting" else OWN), done=done)
            for identifier in about:
                self.trashed.pop(identifier, None)
                if what == "deleting" and done:
                    self.trashed[identifier] = self.now

    def _may_be(self, identifiers, change, *, done):
        for identifier in identifiers:
            before = self.states.setdefault(identifier, {(None, "")})
            after = {change(pair) for pair in before}
            self.states[identifier] = after if done else before | after

    def check(self, *, full):
        """Compare a device that has just started with what must be there."""
        self._check_files()
        self._check_sounds(full=full)
        self._check_wrong_detections(full=full)
        self._check_trash()
        saved = self.state.model.load(self.bundle)
        assert all(np.isfinite(array).all() for array in saved.listening.values())
        assert self._head() in self.heads
        self.heads = {self._head()}
        sample = read_sample(self.state.room_path, self.layout)
        assert (0.0 if sample is None else sample.heard_hours) >= self.hours - 1e-6
        assert sample is None or len(sample.at_s) <= 24 * self.layout.runs

    def _check_files(self):
        for path in self.state.folder.rglob("*"):
            name, size = path.relative_to(self.state.folder).as_posix(), path.stat().st_size
            bounds = [bound for pattern, bound in FILES.items() if re.fullmatch(pattern, name)]
            assert path.is_dir() or (bounds and size <= bounds[0]), f"{name} of {size} bytes"
            if path.parent == self.state.folder and path.suffix in (".json", ".safetensors"):
                read_checked(path)

    def _check_sounds(self, *, full):
        clips = {}
        for path in self.state.folder.joinpath("clips").rglob("*.wav"):
            if NAME.fullmatch(path.stem):
                folder = path.parent.relative_to(self.state.folder / "clips").as_posix()
                assert clips.setdefault(path.stem, folder) == folder, f"{path.stem} is there twice"
        book = {one.question_id: one for one in self.questions.read().questions}
        sounds = {path.stem for path in self.state.questions_folder.glob("*.wav")}
        assert (clips.keys() | book.keys() | sounds) <= self.states.keys()
        for identifier, allowed in self.states.items():
            question = book.get(identifier)
            found = (None if question is None else question.said, clips.get(identifier, ""))
            waits = full and identifier in sounds and bool(found[0])  # for room, to go where the answer says
            if waits:
                assert (question.said, question.folder) in allowed, (identifier, allowed)
                continue
            assert found in allowed, (identifier, found, allowed)
            self.states[identifier] = {found}
            is_open = found == ("", "") and question.is_fresh(self.now)
            if is_open != (identifier in sounds):
                assert is_open, (identifier, question)
                assert identifier in self.silent, (identifier, question)

    def _check_wrong_detections(self, *, full):
        found = read_wrong_detections(self.state.database)
        said = [one for one in self.questions.read().questions if one.detected and one.said in (NO, WAS)]
        assert len(found) == len(set(found))
        assert set(found) <= {(one.at, one.label) for one in said}
        if not full:
            due = {(one.at, one.label) for one in said if one.question_id not in self.without_denial}
            assert due <= set(found)

    def _check_trash(self):
        deletions = {path: float(path.name[9:]) / 1e3 for path in self.state.trash_folder.glob("*")}
        assert all(self.now - moment <= 7 * DAY_S + HOUR_S for moment in deletions.values())
        kept = {path.stem for folder in deletions for path in folder.rglob("*.wav")}
        due = {identifier for identifier, moment in self.trashed.items() if self.now - moment < 7 * DAY_S - HOUR_S}
        assert due <= kept


class Weeks:
    """Starts a device again and again, kills it when it is time, and fills its disk on some days."""

    def __init__(self, disk, folder, rng):
        self.disk, self.rng, self.log = disk, rng, folder / "log"
        (disk.folder / "device").mkdir()
        device = taught(disk.folder / "device", learning="questions = 4", training="nice = 0")
        self.config, self.watch = device.folder / "edge.toml", Watch(device)
        self.moments = sorted(BEGIN_S + rng.uniform(0, DAYS * DAY_S, KILLS))
        self.kills = self.lives = 0
        self.full = False

    def live(self):
        """Live until a kill, or to the end; return whether this was the end."""
        end = BEGIN_S + DAYS * DAY_S
        what = str(self.rng.choice(KILLED_AT))
        lines = int(10 ** self.rng.uniform(0, LINES)) if self.moments and self.rng.random() < 0.6 else 0
        kill = (self.moments[0] if self.moments else end, what, lines)
        arguments = (self.config, self.lives, self.watch.now, end, *kill, *HOURS)
        command = [sys.executable, "-m", "tests.support.lived_device", *map(str, arguments)]
        pipe = subprocess.PIPE
        with self.log.open("w") as log, subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=log) as one:
            self.lives += 1
            try:
                lived = self._follow(one, what, lines)
            finally:
                one.kill()
        assert lived or one.returncode == -signal.SIGKILL, self.log.read_text()
        if not lived:
            self.moments.pop(0)
            self.kills += 1
        return lived

    def _follow(self, process, killed_at, lines):
        """Follow what a process says to its end, or until it is killed; return whether it came to its end."""
        while line := process.stdout.readline():
            if not line.endswith(b"\n"):
                break
            what = self.watch.take(line)
            self._follow_disk(process, what)
            if what == "started":
                self.watch.check(full=self.full)
                with contextlib.suppress(BrokenPipeError):  # it was killed already
                    process.stdin.write(b"\n")
                    process.stdin.flush()
            late = self.watch.now - self.moments[0] if self.moments else -1.0
            if (late >= 0 and what == killed_at and not lines) or late > DAY_S or (what == "lived" and self.moments):
                time.sleep(self.rng.uniform(0, self.rng.choice(DELAYS_S)))
                process.kill()
                for last in process.stdout.read().splitlines(keepends=True):
                    if last.endswith(b"\n"):
                        self.watch.take(last)
                return False
            if what == "lived":
                return True
        process.wait()
        return False

    def _follow_disk(self, process, what):
        full = (self.watch.now - BEGIN_S) // DAY_S in FULL_DAYS
        assert not (full and self.watch.hungry)  # when there was room again, it learned
        if full and (not self.full or what in ("starts", "saving")):
            self.disk.fill(process, int(self.rng.choice(LEFT)))
        if self.full and not full:
            self.disk.free(process)
            self.watch.hungry = True
        self.full = full


def test_three_weeks_of_kills_and_full_disks_lose_nothing(disk, tmp_path):
    weeks = Weeks(disk, tmp_path, np.random.default_rng(21))
    while not weeks.live():
        pass
    watch = weeks.watch
    before = watch.learned
    assert weeks.live()  # it starts once more, and is compared
    counts = watch.counts
    done = {what.removesuffix(" done"): count for what, count in counts.items() if what.endswith(" done")}
    print(f"{weeks.kills} kills, {watch.learned} times learned, {counts['failed']} failures of a full disk; {done}")
    assert weeks.kills == KILLS
    assert before >= DAYS - len(FULL_DAYS)
    assert not watch.hungry
    assert counts["failed"] > 0
    assert all(done.get(what) for what in ("answering", "taking back", "adding", "deleting", "purging"))
