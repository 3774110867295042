"""Owners who answer what their devices ask: the device's own choice of questions, and its own way of learning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.listening.material import RATE_HZ
from benchmarks.living.rooms import Part
from edge_client.clips.files import rejected
from edge_client.clips.store import ClipStore
from edge_client.config import Config
from edge_client.detection.doubts import Doubt, Doubts
from edge_client.questions.answers import finish
from edge_client.questions.asking import Asker
from edge_client.questions.store import NO, WAS, YES, Question, QuestionStore
from edge_client.storage.device_state import DeviceState
from fleet_protocol.arrays import Doubles, Floats
from fleet_protocol.bundle import read_bundle

# Share of wrong answers.
WRONG = 0.05
# A word is in the window of a doubt where it ends so long before the window's end at most, s.
# And where so much of it at least is in the window, s.
_BEHIND_S, _HEARD_S = 0.6, 0.2


@dataclass
class Answers:
    """What became of the questions of one device.

    ``useful`` are those answered of which the device was wrong: misses found, and false accepts.
    """

    asked: int = 0
    answered: int = 0
    wrong: int = 0
    useful: int = 0
    yes: int = 0
    waiting: list[tuple[Question, str]] = field(default_factory=list)


class Owner:
    """One device's owner, who says in the evening what the device asked about on that day."""

    def __init__(self, config: Config, seed: int, *, answers: bool = True, per_day: int = 3) -> None:
        """``answers``: whether he ever answers."""
        manifest = read_bundle(config.bundle).manifest
        assert manifest.embedding_statistics is not None
        self._state, self._answers_at_all = DeviceState(config.device.state), answers
        self._clips = ClipStore(config.clips_folder, config.clips, RATE_HZ)
        self._now = 0.0
        store = QuestionStore(self._state, manifest.feature_settings.digest)
        self._asker = Asker(
            store, self._state, manifest.embedding_statistics, per_day, RATE_HZ, clock=lambda: self._now
        )
        self._rng = np.random.default_rng([seed, 31])
        self._clip_s = manifest.feature_settings.clip_s
        self.found = Answers()

    def hear(
        self,
        part: Part,
        begin: float,
        means: Floats,
        at_s: Doubles,
        labels: tuple[str, ...],
        limits: Floats,
        heard: dict[int, str],
        quiet: np.ndarray[tuple[int], np.dtype[np.bool_]],
        sound: Callable[[], Floats],
    ) -> None:
        """Take a part of the day as the detector does, and ask what is worth it; ``sound`` returns its samples."""
        told: list[Doubt] = []
        doubts = Doubts(part.clip_s, told.append)
        for row, scores, at, silent in zip(part.embeddings, means, at_s, quiet, strict=True):
            detected = heard.get(round(float(at) / part.hop_s), "")
            top = labels.index(detected) if detected else int(scores.argmax())
            embedding = None if silent else row.astype(np.float32)
            # The sound itself is made only where it is asked about.
            window = np.array([at], np.float32)
            doubts.update(
                float(at),
                begin + float(at),
                labels[top],
                float(scores[top]),
                float(limits[top]),
                embedding,
                window,
                detected=bool(detected),
            )
            for doubt in told:
                self._now = begin + float(at)
                if self._asker.is_worth_asking(doubt):
                    end = round(float(doubt.window[0]) * RATE_HZ)
                    samples = sound()[end - round(self._clip_s * RATE_HZ) : end]
                    question = self._asker.ask(replace(doubt, window=samples))
                    self.found.asked += 1
                    self.found.waiting.append((question, _said_in(part, float(doubt.window[0]))))
            told.clear()

    def answer(self) -> bool:
        """Answer what was asked; return whether there is anything to learn."""
        waiting, self.found.waiting = self.found.waiting, []
        if not self._answers_at_all:
            return False
        for question, truth in waiting:
            right = YES if truth == question.label else WAS if truth else NO
            says = right
            if self._rng.random() < WRONG:
                says = NO if right == YES else YES
            denied = rejected(question.label) if question.detected else ""
            folder = {YES: question.label, NO: denied, WAS: truth}[says]
            said = replace(question, said=says, said_at=self._now, folder=folder)
            self._asker.store.replace(said)
            finish(self._clips, self._state, self._asker.store, said)
            self.found.answered += 1
            self.found.wrong += says != right
            self.found.useful += question.detected != (right == YES)
            self.found.yes += right == YES
        return bool(waiting)


def _said_in(part: Part, end_s: float) -> str:
    """Return the taught word in the window that ends then; "" without one."""
    found = [word.label for word in part.words if end_s - _BEHIND_S - word.seconds <= word.begin_s <= end_s - _HEARD_S]
    return str(found[-1]) if found else ""
