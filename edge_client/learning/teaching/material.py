"""What a head on embeddings is trained on: for every output, embeddings of its sounds and centres of more of them.

The words of the pretraining say how far clips of a sound scatter: a draw is a centre plus a normally distributed
distance with the covariance within a word. They also stand for what no label is, and for known words without clips.

Where an embedding has the numbers of two networks, of words and of everyday sounds, a row of a word gets the second
half of any word, and a row of a sound the first half of any sound: so a label is told from its like by the half that
knows it, and not by the room of its few takes in the other one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from edge_client.clips.folders import SOUND, WORD
from edge_client.detection.scores import TABLE
from edge_client.learning.negative_prototypes import believed
from edge_client.learning.sgd import from_slots
from edge_client.learning.teaching.fleet_sounds import FleetSounds
from edge_client.learning.teaching.heard import Embeddings
from fleet_protocol.bundle.bundle_file import Manifest
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.numbers.arrays import Doubles, Floats
from fleet_protocol.numbers.embedding_statistics import EmbeddingStatistics
from fleet_protocol.numbers.joint_statistics import JointStatistics

# Rows of a label in one pass.
_ROWS = 50
# Rows in one pass, as shares of a label's: of each word of the pretraining, of either kind of `_nothing_`, of spliced
# clips, and at most of what the owner said is not a label. The more of the words, the fewer other words are taken for a
# label, and the fewer of the label's own sounds are recognised.
_WORD, _NOTHING, _SPLICED, _REJECTED = 0.2, 0.5, 0.1, 0.5
# Draws of people's talk, in which words follow one another.
_TALK = 2000
# Whitened cosines of a label's mean and the nearest word's from which the word is what the label's name says, and from
# which it may be the label's sound under another name.
_SAME_NAME, SAME_SOUND = 0.4, 0.75
# Rows in one pass, as a share of a label's, of a label that others alone have clips of (`benchmarks.class_discovery`).
_UNHEARD = 2.0
# Rows in one pass, as shares of a label's, of a sound that other owners said is not it, and of all of them together at
# most; and how many draws stand for each.
_DENIED, _ALL_DENIED, _DENIED_ROWS = 0.2, 0.4, 100
# Takes that a label of the fleet would have, of which this device has none of its own.
_USUAL_TAKES = 10
_NEITHER = ""
_HALVES = 400  # of either kind that rows get
_OTHERS = 4000  # draws of other words, and as many of people's talk, by which thresholds are set


@dataclass(frozen=True)
class Sound:
    """What one output of the head learns: embeddings, and means around which more are drawn, float32 [any, numbers]."""

    slot: int
    rows: Floats
    centres: Floats
    share: float = 1.0  # rows in one pass, as a share of a label's
    kind: str = _NEITHER  # or WORD, or SOUND


@dataclass(frozen=True)
class Material:
    """All sounds, of which an output may have several, and what is known of the labels."""

    label_map: LabelMap
    listening_labels: LabelMap  # without the head's outputs of built-in ones that it learns nothing of
    heard: Embeddings
    fleet: FleetSounds
    statistics: EmbeddingStatistics
    sounds: tuple[Sound, ...]
    kinds: Mapping[str, str]  # of labels: WORD, SOUND, or _NEITHER where nothing tells
    built_in: Mapping[str, str]  # by label, which built-in sound it is, as chosen, or as its takes are
    built_in_words: Mapping[str, str]  # those of them that are words
    own: Material | None = None  # of the device's own takes alone; None where there is nothing else, or no take
    # Of an embedding with the numbers of two networks, by kind: the part that is the other kind's, and what rows get.
    halves: Mapping[str, tuple[slice, Floats]] = field(default_factory=dict)

    @property
    def slots(self) -> frozenset[int]:
        """Outputs that there are sounds of."""
        return frozenset(sound.slot for sound in self.sounds)

    @cached_property
    def _scatter(self) -> Doubles:
        """Times normal numbers it is a draw's distance from its centre, float64 [numbers, numbers]."""
        return self.statistics.varied.scatter

    def rows(self, sound: Sound, count: int, rng: np.random.Generator) -> Floats:
        """Return so many embeddings of a sound, float32 [count, numbers]: half of them drawn, where both can be."""
        drawn = count if not len(sound.rows) else count // 2 if len(sound.centres) else 0
        real = sound.rows[rng.integers(max(1, len(sound.rows)), size=count - drawn)]
        around = sound.centres[rng.integers(max(1, len(sound.centres)), size=drawn)]
        found = np.concatenate([real, self._scattered(around, rng)])
        return self._exchanged(found, np.full(count, sound.kind), rng)

    def one_pass(self, capacity: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw the embeddings and targets of one pass: float32 [rows, numbers] and [rows, capacity]."""
        counts = [max(1, round(_ROWS * sound.share)) for sound in self.sounds]
        x = np.concatenate([self.rows(sound, count, rng) for sound, count in zip(self.sounds, counts, strict=True)])
        return x, from_slots(np.repeat([sound.slot for sound in self.sounds], counts), capacity)

    def others(self, states: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw what is no label's: features, float32 [windows, 1, numbers], and those of others that came before.

        Draws around centres of the background's outputs are negatives that nothing was trained on.
        """
        sounds = [sound for sound in self.sounds if sound.slot in self.label_map.background]
        centres = np.concatenate([sound.centres for sound in sounds])
        chosen = rng.integers(max(1, len(centres)), size=_OTHERS if len(centres) else 0)
        kinds = np.repeat([sound.kind for sound in sounds], [len(sound.centres) for sound in sounds])
        words = self._exchanged(self._scattered(centres[chosen], rng), kinds[chosen], rng)
        talk = self.statistics.speech.draw(self.statistics.speech.means[0], _OTHERS, rng)
        rejected = [clips[:, 0] for clips in self.heard.rejected.values()]
        rows = np.concatenate([words, talk, self.statistics.noise, self.heard.nothing, *rejected])
        orders = np.array([rng.permutation(len(rows)) for _ in range(states)], int)
        return rows[:, None], rows[orders.reshape(-1, len(rows))][:, :, None]

    def _scattered(self, centres: Floats, rng: np.random.Generator) -> Floats:
        return np.asarray(centres + rng.standard_normal(centres.shape) @ self._scatter, np.float32)

    def _exchanged(self, rows: Floats, kinds: NDArray[np.str_], rng: np.random.Generator) -> Floats:
        """Give rows, float32 [rows, numbers], of words and of sounds another half; they are overwritten."""
        for kind, (part, pool) in self.halves.items():
            chosen = np.flatnonzero(kinds == kind)
            rows[chosen, part] = pool[rng.integers(len(pool), size=len(chosen))]
        return rows


def material_of(
    label_map: LabelMap,
    kept: Iterable[int],
    heard: Embeddings,
    manifest: Manifest,
    fleet: FleetSounds,
    chosen: Mapping[str, str] | None = None,
) -> Material:
    """Collect what every output learns from; the label map has the new labels and background outputs.

    ``kept``: slots of labels that must not be forgotten. ``chosen``: by label, which built-in sound or word it is.
    """
    statistics, chosen = manifest.embedding_statistics, {**(chosen or {})}
    assert statistics is not None
    words = {label: name for label, name in chosen.items() if name in statistics.known.words}
    wanted = sorted({*kept, *map(label_map.slot_of, [*heard.takes, *words])})
    labels = [_label(slot, label_map, heard, manifest, fleet) for slot in wanted]
    same, other = _words(labels, statistics, words)
    sounds = [sound for one in labels if (sound := _learned(one, same.get(one.slot), heard, statistics)) is not None]
    sounds += _background(label_map, heard, statistics, other)
    own = None
    if heard.takes and (fleet.public_set is not None or fleet.centres):
        own = material_of(label_map, (), heard, manifest, FleetSounds(), chosen)
    halves = _other_halves(sounds, statistics)  # of what the device knows itself
    sounds += _denied(labels, label_map, fleet.denied, manifest)
    kinds = dict.fromkeys(label_map.names, kind_of((), manifest)) | {one.name: one.kind for one in labels}
    learned = {sound.slot for sound in sounds}
    bare = tuple(slot for slot, name in enumerate(label_map.names) if name in chosen and slot not in learned)
    built_in = _built_in(heard, statistics, kinds) | chosen
    of_words = {label: name for label, name in built_in.items() if name in statistics.known.words}
    listening = replace(label_map, off=bare)
    return Material(
        label_map, listening, heard, fleet, statistics, tuple(sounds), kinds, built_in, of_words, own, halves
    )


@dataclass(frozen=True)
class _Label:
    """What there is of a label: embeddings of its takes and public recordings, and centres that the fleet sent."""

    slot: int
    name: str
    class_id: str
    kind: str
    parts: list[Floats]
    centres: Floats | None  # None where there are none, or recordings sound otherwise

    @property
    def described(self) -> list[Floats]:
        """Recordings, else the centres."""
        return self.parts or ([] if self.centres is None else [self.centres])


def _label(slot: int, label_map: LabelMap, heard: Embeddings, manifest: Manifest, fleet: FleetSounds) -> _Label:
    name, class_id = label_map.names[slot], label_map.class_ids[slot] or ""
    takes, centres, statistics = heard.takes.get(name), fleet.centres.get(class_id), manifest.embedding_statistics
    assert statistics is not None
    parts = [] if takes is None else [takes.reshape(-1, takes.shape[-1])]
    public = fleet.public(class_id)
    if not len(public) and not parts and centres is None:
        public = fleet.public(class_id, synthetic=True)
    parts += [public] if len(public) else []
    found = _Label(slot, name, class_id, _NEITHER, parts, centres)
    kind = kind_of(found.described if takes is None else [takes[:, 0]], manifest)
    if centres is not None and parts:
        cosine = _direction([centres], statistics, kind) @ _direction(parts, statistics, kind)
        centres = centres if cosine >= _SAME_NAME else None
    return replace(found, kind=kind, centres=centres)


def _learned(one: _Label, word: int | None, heard: Embeddings, statistics: EmbeddingStatistics) -> Sound | None:
    """Return what a label's output learns, of the label and of the word of the pretraining that it is, if any."""
    parts, centres = [*one.parts], [part.mean(axis=0) for part in one.parts]
    if word is not None:
        # Where the word is built in, what others said counts as much as the owner's takes.
        as_much = one.name in heard.takes and statistics.words[word] in statistics.known.words
        repeated = heard.takes[one.name].shape[1] if as_much else 1
        parts.append(np.repeat(statistics.samples[word], repeated, axis=0))
        centres.append(statistics.varied.means[word])
    if parts:
        around = np.stack(centres) if one.centres is None else one.centres.mean(axis=0, keepdims=True)
        return Sound(one.slot, np.concatenate(parts), around, kind=one.kind)
    return None if one.centres is None else Sound(one.slot, statistics.means[:0], one.centres, _UNHEARD, one.kind)


def _built_in(heard: Embeddings, statistics: EmbeddingStatistics, kinds: Mapping[str, str]) -> dict[str, str]:
    """Return by label what its takes are of what is built in: a sound, or the word that it is called."""
    found = {}
    for label, takes in heard.takes.items():
        sound = kinds[label] == SOUND
        if names := statistics.known.sounds if sound else tuple({label} & {*statistics.known.words}):
            logits = statistics.known.logits(takes[:, 0], names).mean(axis=0)
            if logits.max() >= (TABLE.known_sound if sound else TABLE.known_word).alike:
                found[label] = names[int(logits.argmax())]
    return found


def kind_of(parts: Sequence[Floats], manifest: Manifest) -> str:
    """Return whether embeddings of one label, each [clips, numbers], are of a WORD or of an everyday SOUND.

    A front end that hears one kind alone takes all for that; of one that hears both it is _NEITHER without embeddings.
    """
    statistics = manifest.embedding_statistics
    if not isinstance(statistics, JointStatistics):
        return SOUND if manifest.feature_settings.hears_sounds else WORD
    if not parts:
        return _NEITHER
    return SOUND if statistics.is_sound(np.concatenate(parts)) else WORD


def _direction(parts: Sequence[Floats], statistics: EmbeddingStatistics, kind: str) -> Doubles:
    """Return the direction of the mean of embeddings, each [clips, numbers], whose products are whitened cosines."""
    mean = np.concatenate(parts).mean(axis=0, keepdims=True)
    if isinstance(statistics, JointStatistics) and kind != _NEITHER:
        return np.asarray(statistics.directions_as(mean, sound=kind == SOUND)[0])
    return np.asarray(statistics.whitened(mean)[0])


def _other_halves(sounds: Sequence[Sound], statistics: EmbeddingStatistics) -> dict[str, tuple[slice, Floats]]:
    """Return the halves that rows get: of the device's own sounds and words, and of those that it does not know."""
    if not isinstance(statistics, JointStatistics):
        return {}
    first, second = slice(statistics.split), slice(statistics.split, None)
    found = {}
    for kind, part, unknown in ((SOUND, first, statistics.beyond_words), (WORD, second, statistics.talk)):
        own = [sound.rows[:, part] for sound in sounds if sound.kind == kind and len(sound.rows)]
        known = np.concatenate(own or [unknown])
        some = [rows[np.linspace(0, len(rows) - 1, _HALVES).astype(int)] for rows in (unknown, known)]
        found[kind] = part, np.concatenate(some)
    return found


def _words(
    labels: Sequence[_Label], statistics: EmbeddingStatistics, chosen: Mapping[str, str]
) -> tuple[dict[int, int], tuple[int, ...]]:
    """Return by slot the word of the pretraining that a label is, and the words that are no label's.

    A name alone is not enough, where the label has clips: an owner's `dog` may be a bark, and not the word.
    """
    directions = statistics.whitened(statistics.means)
    same, sounding = {}, set()
    for one in labels:
        name = chosen.get(one.name, one.name)
        nearest = named = statistics.words.index(name) if name in statistics.words else None
        cosine = 1.0
        if one.described:
            cosines = directions @ _direction(one.described, statistics, one.kind)
            nearest, cosine = int(cosines.argmax()), float(cosines.max())
        if nearest is not None and nearest == named and cosine >= _SAME_NAME:
            same[one.slot] = nearest
        elif nearest is not None and cosine >= SAME_SOUND:
            sounding.add(nearest)
    taken = {*same.values(), *sounding}
    return same, tuple(word for word in range(len(statistics.words)) if word not in taken)


def _background(
    label_map: LabelMap, heard: Embeddings, statistics: EmbeddingStatistics, other: tuple[int, ...]
) -> list[Sound]:
    """Return the sounds of the outputs that are no label's."""
    *word_slots, other_slot, nothing_slot = label_map.background
    numbers = statistics.means.shape[1]
    nobody = np.zeros((0, numbers), np.float32)
    sounds = [
        Sound(
            word_slots[word],
            statistics.samples[word],
            statistics.varied.means[[word]],
            _WORD,
            (SOUND if statistics.are_sounds[word] else WORD) if isinstance(statistics, JointStatistics) else _NEITHER,
        )
        for word in other
    ]
    talk = statistics.speech.draw(statistics.speech.means[0], _TALK, np.random.default_rng(0))
    sounds += [
        Sound(other_slot, talk, nobody, kind=WORD),
        Sound(other_slot, heard.spliced, nobody, _SPLICED),
        Sound(nothing_slot, statistics.noise, nobody, _NOTHING),
        Sound(nothing_slot, heard.nothing, nobody, _NOTHING),
    ]
    for label, rejected in heard.rejected.items():
        clips = _no_label_s(rejected, label, heard, statistics)
        takes = len(heard.takes[label]) if label in heard.takes else _USUAL_TAKES
        share = min(_REJECTED, len(clips) / takes)  # one is worth as much as a take: a single one costs few of these
        sounds.append(Sound(other_slot, clips.reshape(-1, numbers), nobody, share))
    return [sound for sound in sounds if len(sound.rows) or len(sound.centres)]


def _denied(
    labels: Sequence[_Label], label_map: LabelMap, denied: Mapping[str, Floats], manifest: Manifest
) -> list[Sound]:
    """Return sounds of what other owners said is not a label, as far as it contradicts nothing that the device knows.

    They are rows and no centres, so that nobody moves the device's thresholds with them.
    """
    said, statistics, known = [one for one in labels if one.class_id in denied], manifest.embedding_statistics, {}
    assert statistics is not None
    for one in labels if said else ():
        found = [part for part in (one.parts, [] if one.centres is None else [one.centres]) if part]
        known[one.slot] = np.array([_direction(part, statistics, one.kind) for part in found]).reshape(len(found), -1)
    *_, other_slot, _ = label_map.background
    rng, sounds = np.random.default_rng(0), []
    for one in said:
        negatives = denied[one.class_id]
        others = [found for another, found in known.items() if another != one.slot and len(found)]
        held = believed(statistics.whitened(negatives), [known[one.slot]], others)
        for mean in negatives[held]:
            rows = statistics.varied.draw(mean, _DENIED_ROWS, rng)
            share = min(_DENIED, _ALL_DENIED / held.sum())
            sounds.append(Sound(other_slot, rows, rows[:0], share, kind_of([mean[None]], manifest)))
    return sounds


def _no_label_s(clips: Floats, label: str, heard: Embeddings, statistics: EmbeddingStatistics) -> Floats:
    """Return those clips, float32 [clips, variants, numbers], not of a label, that are no other label's either."""
    means = [takes.mean(axis=(0, 1)) for other, takes in heard.takes.items() if other != label]
    if not means:
        return clips
    cosines = statistics.whitened(clips.mean(axis=1)) @ statistics.whitened(np.stack(means)).T
    return np.asarray(clips[cosines.max(axis=1) < SAME_SOUND])
