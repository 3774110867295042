"""What a device listens with besides its head: prototypes of its labels, and how often others reach their scores."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Mapping
from dataclasses import dataclass

import numpy as np

from edge_client.clips.folders import SOUND
from edge_client.detection.score_table import TABLE, ScoreTable
from edge_client.detection.scores import directions_before, prototype, weight_of_order, word_of
from edge_client.detection.thresholds import Tail, fit_tails
from edge_client.learning.teaching.head_material import Before, HeadMaterial, Heard
from edge_client.model.prototypes import Prototype
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.numbers.arrays import Floats
from fleet_protocol.numbers.embedding_statistics import EmbeddingStatistics
from fleet_protocol.numbers.known import ONCE_AN_HOUR

# Embeddings of other words, and as many of people's talk, by which thresholds are set.
_OTHERS = 4000
# Of a sound known from the start without takes: as its rows were made for.
_WITHOUT_TAKES = Tail(ONCE_AN_HOUR, 1.5)


@dataclass(frozen=True)
class Lesson:
    """What a device knows of its labels, whatever the scores weigh."""

    label_map: LabelMap  # for listening: without the head's outputs of known sounds that it learned nothing of
    material: HeadMaterial
    heard: Heard
    statistics: EmbeddingStatistics
    sounds: frozenset[str]  # labels that are everyday sounds
    sent: Mapping[str, Before]  # by class, what others say comes before it
    known: Mapping[str, str]  # by label, what it is that the front end knows from the start

    @classmethod
    def of(
        cls,
        label_map: LabelMap,
        material: HeadMaterial,
        heard: Heard,
        statistics: EmbeddingStatistics,
        from_start: Mapping[str, str],
        sent: Mapping[str, Before],
        *,
        hears_sounds: bool,
    ) -> Lesson:
        """Return that of labels, of which some are chosen ``from_start``; ``hears_sounds``: all labels are sounds."""
        kinds = material.kinds(label_map)
        sounds = frozenset(label for label in label_map.labels if hears_sounds or kinds.get(label) == SOUND)
        bare = (slot for slot, name in enumerate(label_map.names) if name in from_start and slot not in material.slots)
        known = {**_alike(heard, statistics, sounds), **from_start}
        return cls(dataclasses.replace(label_map, off=tuple(bare)), material, heard, statistics, sounds, sent, known)

    @property
    def known_words(self) -> dict[str, str]:
        """What of ``known`` are words."""
        return {label: name for label, name in self.known.items() if name in self.statistics.known.words}

    def prototypes(self, table: ScoreTable = TABLE) -> dict[str, Prototype]:
        """Return the prototypes of labels: of takes and recordings, else of the centres that are known.

        Of a class with neither takes nor recordings its parts are the windows that came before it.
        """
        names, words = dict(enumerate(self.label_map.names)), self.known_words
        nothing = np.zeros((0, self.statistics.means.shape[1]), np.float32)
        found = {}
        for one in self.material.sounds:
            if one.slot not in names:
                continue
            label, rows = names[one.slot], one.rows if len(one.rows) else one.centres
            if label in self.sounds:
                found[label] = Prototype(prototype(rows, self.statistics, sound=True, table=table)[None], nothing)
                continue
            known = label in words
            whole = [prototype(rows, self.statistics, self._takes(label, words), known=known, table=table)]
            if label in self.heard.parts:
                parts = self.heard.parts[label].swapaxes(0, 1)
                whole += [prototype(part, self.statistics, part[:, None], known=known, table=table) for part in parts]
            own = bool(len(one.rows))
            before = self.heard.before.get(label) if own else self.sent.get(self.label_map.class_ids[one.slot] or "")
            if before is not None and not own:
                whole += [prototype(part, self.statistics, table=table) for part in before.rows]
            most = max(map(len, whole))  # parts of some takes alone are known: the others' stand there twice
            stacked = np.stack([np.resize(takes, (most, takes.shape[1])) for takes in whole])
            ago = nothing
            if before is not None:
                ago = directions_before(before.rows, before.length_s, self.statistics, table)
            found[label] = Prototype(stacked, ago)
        return found

    def _takes(self, label: str, words: Mapping[str, str]) -> Floats | None:
        """Return a word's takes, float32 [takes, variants, numbers]; what others said of a known one counts as such."""
        takes = [self.heard.takes[label]] if label in self.heard.takes else []
        if label in words:
            others = self.statistics.samples[self.statistics.words.index(words[label]), :, None]
            takes.append(np.repeat(others, takes[0].shape[1], axis=1) if takes else others)
        return np.concatenate(takes) if takes else None

    def others(self, states: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw what is no label's: features, float32 [windows, 1, numbers], and those of others that came before."""
        words = self.material.draws(self.label_map.background, _OTHERS, rng)
        talk = self.statistics.speech.draw(self.statistics.speech.means[0], _OTHERS, rng)
        rejected = [clips[:, 0] for clips in self.heard.rejected.values()]
        rows = np.concatenate([words, talk, self.statistics.noise, self.heard.nothing, *rejected])
        orders = np.array([rng.permutation(len(rows)) for _ in range(states)], int)
        return rows[:, None], rows[orders.reshape(-1, len(rows))][:, :, None]

    def tails(
        self, scores: Floats, prototypes: Mapping[str, Prototype], table: ScoreTable = TABLE
    ) -> dict[str, tuple[float, float]]:
        """Return by label how often others reach its score, from the scores of :meth:`others`, [windows, labels]."""
        unheard, words = self.statistics.unheard, self.known_words
        of_words = word_of(self.statistics.known, table).others if unheard is None else Tail(*unheard)
        found = {}
        for label, tail in zip(self.label_map.names, fit_tails(scores), strict=True):
            if label in self.label_map.labels:
                tail = tail.at_least(table.sound.others if label in self.sounds else of_words)
            if label in prototypes:
                tail = Tail(tail.level - table.rarer * weight_of_order(prototypes[label].before, table), tail.scale)
            found[label] = tail
        found |= dict.fromkeys(self.known, table.known_sound.others)
        found |= {self.label_map.names[slot]: _WITHOUT_TAKES for slot in self.label_map.off}
        found |= dict.fromkeys(words, table.known_word.others)
        return {label: (tail.level, tail.scale) for label, tail in found.items()}


def _alike(heard: Heard, statistics: EmbeddingStatistics, sounds: Container[str]) -> dict[str, str]:
    """Return by label what its takes are of what is known from the start: a sound, or the word that it is called."""
    found = {}
    for label, takes in heard.takes.items():
        sound = label in sounds
        names = statistics.known.sounds if sound else tuple({label} & {*statistics.known.words})
        if names:
            logits = statistics.known.logits(takes[:, 0], names).mean(axis=0)
            if logits.max() >= (TABLE.known_sound if sound else TABLE.known_word).alike:
                found[label] = names[int(logits.argmax())]
    return found
