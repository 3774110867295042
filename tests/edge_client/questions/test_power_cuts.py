"""SIGKILL at many lines while a question is asked, answered and undone: nothing is lost, half-written or doubled."""

import os
import shutil
import signal
import sys

import numpy as np
import pytest

from edge_client.learning.forgotten_labels import forget_noted
from edge_client.owner_undo import changes
from edge_client.questions.answers import answer, finish_all, open_questions, store_of
from edge_client.storage.owner_choices import read_wrong_detections
from tests.support.asked_device import Owner, ask, sound
from tests.support.checkout import ROOT

OWN = (str(ROOT / "edge_client"), str(ROOT / "fleet_protocol"))
KILLS, MORE = 20, 60
FOLDERS = {"yes": "kettle", "no": "_not_/kettle", "was": "cup"}


class Device(Owner):
    """A device that is set back to what it was."""

    def __init__(self, folder):
        super().__init__(folder)
        self.kept = folder / "kept"
        self.question = None

    def keep(self):
        shutil.rmtree(self.kept, ignore_errors=True)
        shutil.copytree(self.state.folder, self.kept)

    def set_back(self):
        shutil.rmtree(self.state.folder)
        shutil.copytree(self.kept, self.state.folder)

    def ask(self):
        self.question = ask(self.config, detected=True, window=sound("stop"))

    def say(self, said):
        answer(self.teaching, self.question.question_id, said, "cup" if said == "was" else "")

    def start_again(self):
        """What a daemon does that starts, and what the page does that is opened."""
        self.state.remove_leftovers()
        teaching = self.teaching
        teaching.store.tidy()
        finish_all(teaching.store, teaching.state, store_of(teaching))
        forget_noted(teaching.config, teaching.state)
        return open_questions(teaching)

    def found(self):
        """All that there is after a start: questions, sounds, denials, the owner's changes, labels, odd files.

        Labels are those with clips, and those of the model without; what the model has yet to learn, it learns.
        """
        asked = [one.question_id for one in self.start_again()]
        book = store_of(self.teaching).read().questions
        sounds = sorted(path.relative_to(self.state.folder).as_posix() for path in self.state.folder.rglob("*.wav"))
        odd = [path.name for path in self.state.folder.rglob(".*") if path.name != ".lock"]
        said = [(one.question_id, one.said, one.folder, one.shared) for one in book]
        denied = len(read_wrong_detections(self.state.database))
        taught = self.teaching.store.labels()
        labels = [taught, sorted(set(self.teaching.label_map.labels) - set(taught))]
        return asked, said, sounds, denied, [change.kind for change in changes(self.teaching)], labels, odd


@pytest.fixture
def device(tmp_path):
    return Device(tmp_path)


def killed_at(action, line):
    """Do something in a process that is killed at so many lines; return how many there were, and how it ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        lines = [0]

        def trace(frame, _event, _argument):
            if not frame.f_code.co_filename.startswith(OWN):
                return None
            lines[0] += 1
            if lines[0] == line:
                os.kill(os.getpid(), signal.SIGKILL)
            return trace

        sys.settrace(trace)
        action()
        sys.settrace(None)
        os.write(writing, str(lines[0]).encode())
        os._exit(0)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reading) as told:
        return int(told.read() or 0), os.waitstatus_to_exitcode(status)


def states_after_kills(device, action):
    """Kill an action at many lines, the last few one by one; return what is found before, after it, and after kills."""
    device.keep()
    before = device.found()
    device.set_back()
    lines, status = killed_at(action, 0)
    assert status == 0
    after = device.found()
    points = {*np.linspace(1, lines, KILLS).astype(int).tolist(), *range(lines - 5, lines + MORE)}
    seen = []
    for point in sorted(points):
        device.set_back()
        # A few lines fewer or more are needed, as the notes of the database need not be read again, or must be.
        ended = killed_at(action, point)[1]
        assert ended in (0, -signal.SIGKILL)
        seen.append(device.found())
        if ended == 0 and point >= lines:
            break
    return before, after, seen


def require_one_of_both(before, after, seen):
    assert before != after
    assert [found for found in seen if found not in (before, after)] == []
    assert before in seen
    assert after in seen


def test_a_question_is_asked_with_its_sound_or_not_at_all(device):
    found = states_after_kills(device, device.ask)
    require_one_of_both(*found)
    assert len(found[1][0]) == 1


@pytest.mark.parametrize("said", list(FOLDERS))
def test_an_answer_is_whole_or_not_given_and_no_sound_is_lost_or_doubled(device, said):
    device.ask()
    before, after, seen = states_after_kills(device, lambda: device.say(said))
    require_one_of_both(before, after, seen)
    name = device.question.file_name
    assert [path for path in before[2] if path.endswith(name)] == [f"questions/{name}"]
    assert [path for path in after[2] if path.endswith(name)] == [f"clips/{FOLDERS[said]}/{name}"]


@pytest.mark.parametrize("said", ["no", "was"])
def test_an_answer_is_taken_back_or_stands_and_can_be_taken_back_again(device, said):
    device.ask()
    asked = device.found()
    device.say(said)
    if said == "was":
        device.device.teach()
    before, after, seen = states_after_kills(device, device.undo)
    require_one_of_both(before, after, seen)
    if said == "was":
        assert (before[5], after[5]) == ([("bell", "cup", "kettle"), []], [("bell", "kettle"), []])
    assert after == asked
    device.set_back()
    assert killed_at(device.undo, 1) == (0, -signal.SIGKILL)
    device.undo()
    assert device.found() == after
