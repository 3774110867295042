"""A daemon's part of asking: it takes what the detector is in doubt about, and keeps what is worth a question.

The value of an answer is how open the question is, times how often the device was wrong about such sounds, times how
new the sound is. Of a week's candidates the best are asked about, a few a day: a candidate is asked about where it
would have been among them.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Sequence

import numpy as np

from edge_client.clips.embedding_cache import is_clip
from edge_client.config import Config
from edge_client.detection.doubts import Doubt
from edge_client.detection.sound_names import Guesser
from edge_client.errors import DamagedError, StateError
from edge_client.events import Asked
from edge_client.logs import RateLimitedLog
from edge_client.questions.store import NO, WAS, WEEK_S, YES, Book, Candidate, Question, QuestionStore, sound_of
from edge_client.storage.ages import DAY_S
from edge_client.storage.checked_files import read_checked
from edge_client.storage.device_state import DeviceState
from fleet_protocol.bundle.bundle_file import Manifest
from fleet_protocol.errors import TensorError
from fleet_protocol.numbers.arrays import Floats
from fleet_protocol.numbers.embedding_statistics import EmbeddingStatistics
from fleet_protocol.numbers.tensors import unpack

log = logging.getLogger(__name__)


class Asker:
    """Chooses questions; :meth:`consider` for one thread that may wait for the disk, :meth:`changed` for another."""

    def __init__(
        self,
        store: QuestionStore,
        state: DeviceState,
        statistics: EmbeddingStatistics,
        per_day: int,
        rate_hz: int,
        clock: Callable[[], float] = time.time,
        guesser: Guesser | None = None,
    ) -> None:
        """Prepare. ``clock``: seconds since 1970; ``guesser`` says what else a sound may be."""
        self._guesser = guesser
        self.store = store
        self._embeddings_path, self._database, self._statistics = state.embeddings_path, state.database, statistics
        self._per_day, self._rate_hz, self._clock = per_day, rate_hz, clock
        self._trouble = RateLimitedLog(log)
        self._taught: tuple[tuple[int, int], list[Floats]] = ((0, 0), [])
        self._seen: object = None
        self._next_look = 0.0

    @classmethod
    def open(cls, config: Config, state: DeviceState, manifest: Manifest) -> Asker | None:
        """Return it; None where no questions are wanted (former ones then go), or answers cannot be learned from."""
        store = QuestionStore(state, manifest.feature_settings.digest)
        statistics, per_day = manifest.embedding_statistics, config.learning.questions
        if not per_day:
            store.forget()
        if not per_day or config.microphone is None or statistics is None:
            return None
        settings = manifest.feature_settings
        guesser = Guesser.of(settings, statistics)
        return cls(store, state, statistics, per_day, settings.sample_rate_hz, guesser=guesser)

    def consider(self, doubt: Doubt) -> None:
        """Ask about a sound, where that is worth it. A full disk is logged, and the sound is not asked about."""
        try:
            if self.is_worth_asking(doubt):
                self.ask(doubt)
        except (OSError, StateError) as error:
            self._trouble.warning("cannot keep a question: %s", error)

    def is_worth_asking(self, doubt: Doubt) -> bool:
        """Return whether a sound is worth a question, and note its worth, for others. Raises OSError, StateError."""
        now, book = self._clock(), self.store.read()
        asked = [one.embedding for one in book.questions]
        known = [row for row in (*self._taught_clips(), *asked) if len(row) == len(doubt.embedding)]
        worth = openness(doubt.margin) * novelty(doubt.embedding, known, self._statistics)
        candidate = Candidate(now, worth, doubt.detected)
        self.store.add_candidate(candidate)
        return is_chosen(candidate, book, self._per_day, now)

    def ask(self, doubt: Doubt) -> Question:
        """Ask about a sound, and keep it. Raises OSError, StateError if that is not possible."""
        question_id, sound = sound_of(doubt.sound, self._rate_hz)
        question = Question(question_id, doubt.time, doubt.label, doubt.detected, doubt.score, doubt.embedding)
        self.store.add(question, sound)
        log.info("in doubt whether a sound was %r, score %.2f: asks its owner", doubt.label, doubt.score)
        return question

    def _taught_clips(self) -> list[Floats]:
        """Return the embeddings of the clips that were learned, float32 [numbers] each."""
        try:
            status = self._embeddings_path.stat()
            key = (status.st_mtime_ns, status.st_size)
            if key != self._taught[0]:
                arrays, _ = unpack(read_checked(self._embeddings_path))
                rows = [array for name, array in arrays.items() if is_clip(name)]
                self._taught = key, [np.asarray(array[0], np.float32) for array in rows if len(array)]
        except (FileNotFoundError, DamagedError, TensorError):
            return []
        return self._taught[1]

    def changed(self, known: Collection[str]) -> tuple[Asked, ...] | None:
        """Return the open questions about known labels, if they may have changed; what is a day old goes."""
        key = self._database.key()
        if key == self._seen and time.monotonic() < self._next_look:
            return None
        self.store.tidy(self._clock())
        found = self.store.open_questions(self._clock())
        self._seen, self._next_look = key, time.monotonic() + 60.0
        return tuple(
            Asked(one.question_id, one.at, one.label, one.detected, one.score, guess=guess_about(one, self._guesser))
            for one in found
            if one.label in known
        )


def guess_about(question: Question, guesser: Guesser | None) -> str:
    """Return what else a sound may be than the label that is asked about, with commas between; "" for no guess."""
    words = () if guesser is None else guesser.guess(question.embedding)
    return ", ".join(word for word in words if word != question.label)


def openness(margin: float) -> float:
    """Return how open the question is, 0..1, of a margin in logits: 1 at the threshold, 0.42 two logits off it."""
    chance = 1 / (1 + math.exp(-margin))
    return 4 * chance * (1 - chance)


def error_rate(book: Book, *, detected: bool) -> float:
    """Return how often the device was wrong about detections, or about near misses, by the answers so far, 0..1.

    Half of the time before there are any (Laplace's rule of succession). In a room full of talk near misses are seldom
    the label, and their questions make room for those about detections.
    """
    answered = [one for one in book.questions if one.said in (YES, NO, WAS) and one.detected == detected]
    wrong = sum((one.said == YES) != detected for one in answered)
    return (wrong + 1) / (len(answered) + 2)


def novelty(embedding: Floats, known: Sequence[Floats], statistics: EmbeddingStatistics) -> float:
    """Return how new a sound is, 0..1: 1 - its whitened cosine to the most similar one that is known.

    ``known`` are taught clips, and sounds that were asked about; all embeddings are float32 [numbers].
    """
    return 1.0 - max(0.0, nearest(embedding, known, statistics))


def nearest(embedding: Floats, known: Sequence[Floats], statistics: EmbeddingStatistics) -> float:
    """Return the highest whitened cosine of an embedding to others, -1..1; -1 where there are none."""
    if not len(known):
        return -1.0
    return float((statistics.whitened(np.stack(known)) @ statistics.whitened(embedding[None])[0]).max())


def is_chosen(candidate: Candidate, book: Book, per_day: int, now: float) -> bool:
    """Return whether a candidate is asked about; ``per_day``: questions of a day at most; ``now``: s since 1970."""
    asked = sum(one.is_fresh(now) for one in book.questions)
    if asked >= per_day:
        return False
    rates = {detected: error_rate(book, detected=detected) for detected in (False, True)}

    def value(one: Candidate) -> float:
        return one.worth * rates[one.detected]

    week = [one for one in book.candidates if 0 <= now - one.at < WEEK_S]
    days = max(1.0, (now - min((one.at for one in week), default=now)) / DAY_S)
    return sum(value(one) > value(candidate) for one in week) < per_day * days
