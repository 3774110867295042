"""What a head on embeddings is trained on: for every output, embeddings of its sounds and centres of more of them.

The words of the pretraining say how far clips of a sound scatter: a draw is a centre plus a normally distributed
distance with the covariance within a word. They also stand for what no label is, and for known words without clips.

Where an embedding has the numbers of two networks, of words and of everyday sounds, a row of a word gets the second
half of any word, and a row of a sound the first half of any sound: so a label is told from its like by the half that
knows it, and not by the room of its few takes in the other one.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edge_client.clips.folders import SOUND, WORD
from edge_client.learning.negative_prototypes import believed
from edge_client.learning.sgd import from_slots
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.messages.public_set import PublicSet
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
# Rows in one pass, as a share of a label's, of a label that others alone have clips of: with 1, two points less of it
# are recognised (`benchmarks.class_discovery`).
_UNHEARD = 2.0
# Rows in one pass, as shares of a label's, of a sound that other owners said is not it, and of all of them together at
# most; and how many draws stand for each.
_DENIED, _ALL_DENIED, _DENIED_ROWS = 0.2, 0.4, 100
# Takes that a label of the fleet would have, of which this device has none of its own.
_USUAL_TAKES = 10
NEITHER = ""
_HALVES = 400  # of either kind that rows get


@dataclass(frozen=True)
class Before:
    """What windows half a second before a word's takes hold, a second, and so on, and the word's length, s.

    rows: float32 [states, windows, numbers]
    """

    rows: Floats
    length_s: float


@dataclass(frozen=True)
class Heard:
    """Embeddings of what the device itself heard, float32; the last axis counts the embedding's numbers."""

    takes: Mapping[str, Floats]  # by label, [clips, variants, numbers]; the first variant is the clip as recorded
    nothing: Floats  # windows of the room when nothing happens, and of artificial noise, [windows, numbers]
    spliced: Floats  # windows made of pieces of several labels' clips, [windows, numbers]
    rejected: Mapping[str, Floats] = field(default_factory=dict)  # by label, what the owner said is not it; as takes
    # By label, what is less than the whole of a take, [takes, parts, numbers]; long words alone.
    parts: Mapping[str, Floats] = field(default_factory=dict)
    before: Mapping[str, Before] = field(default_factory=dict)  # by label; of words


@dataclass(frozen=True)
class Sound:
    """What one output of the head learns: embeddings, and means around which more are drawn, float32 [any, numbers]."""

    slot: int
    rows: Floats
    centres: Floats
    share: float = 1.0  # rows in one pass, as a share of a label's
    kind: str = NEITHER  # or WORD, or SOUND


@dataclass(frozen=True)
class OtherHalves:
    """First halves of sounds, float32 [rows, split], and second halves of words, float32 [rows, numbers - split]."""

    of_sounds: Floats
    of_words: Floats

    def exchange(self, rows: Floats, kinds: NDArray[np.str_], rng: np.random.Generator) -> Floats:
        """Give rows, float32 [rows, numbers], of words and of sounds another half; they are overwritten."""
        split = self.of_sounds.shape[1]
        for kind, pool, part in ((SOUND, self.of_sounds, slice(split)), (WORD, self.of_words, slice(split, None))):
            chosen = np.flatnonzero(kinds == kind)
            rows[chosen, part] = pool[rng.integers(len(pool), size=len(chosen))]
        return rows


@dataclass(frozen=True)
class HeadMaterial:
    """All sounds, of which an output may have several, and how far draws lie from their centres."""

    sounds: tuple[Sound, ...]
    scatter: Doubles  # times normal numbers is a draw's distance from its centre, float64 [numbers, numbers]
    own: HeadMaterial | None = None  # of the device's own takes alone; None where there is nothing else, or no take
    halves: OtherHalves | None = None  # of an embedding with the numbers of two networks

    @property
    def slots(self) -> frozenset[int]:
        """Outputs that there are sounds of."""
        return frozenset(sound.slot for sound in self.sounds)

    def kinds(self, label_map: LabelMap) -> dict[str, str]:
        """Return the kind of each label that has one."""
        names = dict(enumerate(label_map.names))
        return {names[sound.slot]: sound.kind for sound in self.sounds if sound.slot in names and sound.kind}

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

    def draws(self, slots: Container[int], count: int, rng: np.random.Generator) -> Floats:
        """Return embeddings drawn around the centres of some outputs' sounds, float32 [count, numbers]; none without.

        Of the background's outputs these are negatives that nothing was trained on.
        """
        sounds = [sound for sound in self.sounds if sound.slot in slots]
        centres = np.concatenate([sound.centres for sound in sounds])
        chosen = rng.integers(max(1, len(centres)), size=count if len(centres) else 0)
        kinds = np.repeat([sound.kind for sound in sounds], [len(sound.centres) for sound in sounds])
        return self._exchanged(self._scattered(centres[chosen], rng), kinds[chosen], rng)

    def _scattered(self, centres: Floats, rng: np.random.Generator) -> Floats:
        return np.asarray(centres + rng.standard_normal((len(centres), len(self.scatter))) @ self.scatter, np.float32)

    def _exchanged(self, rows: Floats, kinds: NDArray[np.str_], rng: np.random.Generator) -> Floats:
        return rows if self.halves is None else self.halves.exchange(rows, kinds, rng)


def head_material(
    label_map: LabelMap,
    known: Iterable[int],
    heard: Heard,
    statistics: EmbeddingStatistics,
    public_set: PublicSet | None,
    prototypes: Mapping[str, Floats] | None = None,
    denied: Mapping[str, Floats] | None = None,
    chosen: Mapping[str, str] | None = None,
) -> HeadMaterial:
    """Collect what every output learns from; the label map has the new labels and background outputs.

    ``known``: slots of labels that must not be forgotten. ``prototypes``: by class, centres that the fleet sent,
    float32 [centres, numbers]. ``denied``: by class, what others said is not its sound, float32 [sounds, numbers].
    ``chosen``: by label, the word known from the start that it is.
    """
    chosen = chosen or {}
    wanted = sorted({*known, *map(label_map.slot_of, [*heard.takes, *chosen])})
    sent = ((slot, (prototypes or {}).get(label_map.class_ids[slot] or "")) for slot in wanted)
    fleet = {slot: centres for slot, centres in sent if centres is not None}
    recorded = {slot: _recorded(slot, label_map, heard, public_set, drawn=slot not in fleet) for slot in wanted}
    kinds = _kinds(label_map, recorded, fleet, heard, statistics)
    fleet = {
        slot: centres for slot, centres in fleet.items() if _alike(recorded[slot], centres, statistics, kinds[slot])
    }
    described = {slot: parts if parts or slot not in fleet else [fleet[slot]] for slot, parts in recorded.items()}
    same, other = _words(label_map, described, statistics, kinds, chosen)
    sounds = []
    for slot in wanted:
        parts = recorded[slot]
        centres = [part.mean(axis=0) for part in parts]
        if slot in same:
            word = same[slot]
            # Where the word is known from the start, what others said counts as much as the owner's takes.
            variants = heard.takes[named].shape[1] if (named := label_map.names[slot]) in heard.takes else 1
            repeated = variants if statistics.words[word] in statistics.known.words else 1
            parts = [*parts, np.repeat(statistics.samples[word], repeated, axis=0)]
            centres = [*centres, statistics.varied.means[word]]
        elif not described[slot]:
            continue  # nothing tells of it
        if not parts:
            sounds.append(Sound(slot, statistics.means[:0], fleet[slot], _UNHEARD, kinds[slot]))
            continue
        centres = [fleet[slot].mean(axis=0)] if slot in fleet else centres
        sounds.append(Sound(slot, np.concatenate(parts), np.stack(centres), kind=kinds[slot]))
    sounds += _background(label_map, heard, statistics, other)
    own = None
    if heard.takes and (public_set is not None or prototypes):
        own = head_material(label_map, (), heard, statistics, None, chosen=chosen)
    halves = _other_halves(sounds, statistics)  # of what the device knows itself
    sounds += _denied(label_map, described, fleet, denied or {}, statistics, kinds)
    return HeadMaterial(tuple(sounds), statistics.varied.scatter, own, halves)


def _kinds(
    label_map: LabelMap,
    recorded: Mapping[int, list[Floats]],
    fleet: Mapping[int, Floats],
    heard: Heard,
    statistics: EmbeddingStatistics,
) -> dict[int, str]:
    """Return of what kind the label of each slot is: by the clips as they were recorded, else by what else there is of
    it. NEITHER where there is nothing, and on a front end that hears one kind alone.
    """
    kinds = dict.fromkeys(recorded, NEITHER)
    if not isinstance(statistics, JointStatistics):
        return kinds
    for slot, parts in recorded.items():
        label = label_map.names[slot]
        rows = parts or ([fleet[slot]] if slot in fleet else [])
        if label in heard.takes:
            rows = [heard.takes[label][:, 0]]
        if rows:
            kinds[slot] = SOUND if statistics.is_sound(np.concatenate(rows)) else WORD
    return kinds


def _direction(parts: Sequence[Floats], statistics: EmbeddingStatistics, kind: str) -> Doubles:
    """Return the direction of the mean of embeddings, each [clips, numbers], whose products are whitened cosines."""
    mean = np.concatenate(parts).mean(axis=0, keepdims=True)
    if isinstance(statistics, JointStatistics) and kind != NEITHER:
        return np.asarray(statistics.directions_as(mean, sound=kind == SOUND)[0])
    return np.asarray(statistics.whitened(mean)[0])


def _other_halves(sounds: Sequence[Sound], statistics: EmbeddingStatistics) -> OtherHalves | None:
    """Return the halves that rows get: of the device's own sounds and words, and of those that it does not know."""
    if not isinstance(statistics, JointStatistics):
        return None

    def pool(kind: str, part: slice, unknown: Floats) -> Floats:
        own = [sound.rows[:, part] for sound in sounds if sound.kind == kind and len(sound.rows)]
        known = np.concatenate(own or [unknown])
        return np.concatenate([rows[np.linspace(0, len(rows) - 1, _HALVES).astype(int)] for rows in (unknown, known)])

    first, second = slice(statistics.split), slice(statistics.split, None)
    return OtherHalves(pool(SOUND, first, statistics.beyond_words), pool(WORD, second, statistics.talk))


def _words(
    label_map: LabelMap,
    recorded: Mapping[int, list[Floats]],
    statistics: EmbeddingStatistics,
    kinds: Mapping[int, str],
    chosen: Mapping[str, str],
) -> tuple[dict[int, int], tuple[int, ...]]:
    """Return by slot the word of the pretraining that a label is, and the words that are no label's.

    A name alone is not enough, where the label has clips: an owner's `dog` may be a bark, and not the word.
    """
    directions = statistics.whitened(statistics.means)
    same, sounding = {}, set()
    for slot, parts in recorded.items():
        name = chosen.get(label_map.names[slot], label_map.names[slot])
        named = statistics.words.index(name) if name in statistics.words else None
        if not parts:
            nearest, cosine = named, 1.0
        else:
            cosines = directions @ _direction(parts, statistics, kinds[slot])
            nearest, cosine = int(cosines.argmax()), float(cosines.max())
        if nearest is not None and nearest == named and cosine >= _SAME_NAME:
            same[slot] = nearest
        elif nearest is not None and cosine >= SAME_SOUND:
            sounding.add(nearest)
    taken = {*same.values(), *sounding}
    return same, tuple(word for word in range(len(statistics.words)) if word not in taken)


def _alike(parts: list[Floats], centres: Floats, statistics: EmbeddingStatistics, kind: str) -> bool:
    """Tell whether the fleet's centres are believed: there are no recordings, or they sound as these do."""
    if not parts:
        return True
    cosine = _direction([centres], statistics, kind) @ _direction(parts, statistics, kind)
    return bool(cosine >= _SAME_NAME)


def _recorded(
    slot: int, label_map: LabelMap, heard: Heard, public_set: PublicSet | None, *, drawn: bool
) -> list[Floats]:
    """Return embeddings of a label's takes and public recordings; where there are none, of its drawn public rows."""
    parts = []
    if (name := label_map.names[slot]) in heard.takes:
        takes = heard.takes[name]
        parts.append(takes.reshape(-1, takes.shape[-1]))
    class_id = label_map.class_ids[slot]
    if public_set is not None and class_id in public_set.class_ids:
        of_class = public_set.labels == public_set.class_ids.index(class_id)
        rows = of_class & ~public_set.synthetic
        if not rows.any() and not parts and drawn:
            rows = of_class
        if rows.any():
            parts.append(public_set.features[rows, 0])
    return parts


def _background(
    label_map: LabelMap, heard: Heard, statistics: EmbeddingStatistics, other: tuple[int, ...]
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
            (SOUND if statistics.are_sounds[word] else WORD) if isinstance(statistics, JointStatistics) else NEITHER,
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
    label_map: LabelMap,
    described: Mapping[int, list[Floats]],
    fleet: Mapping[int, Floats],
    denied: Mapping[str, Floats],
    statistics: EmbeddingStatistics,
    kinds: Mapping[int, str],
) -> list[Sound]:
    """Return sounds of what other owners said is not a label, as far as it contradicts nothing that the device knows.

    They are rows and no centres, so that nobody moves the device's thresholds with them.
    """
    said = {slot: denied[class_id] for slot in described if (class_id := label_map.class_ids[slot] or "") in denied}
    if not said:
        return []
    known = {}
    for slot, parts in described.items():
        found = [one for one in (parts, [fleet[slot]] if slot in fleet else []) if one]
        known[slot] = np.array([_direction(one, statistics, kinds[slot]) for one in found]).reshape(len(found), -1)
    *_, other_slot, _ = label_map.background
    rng, sounds = np.random.default_rng(0), []
    for slot, negatives in said.items():
        others = [found for another, found in known.items() if another != slot and len(found)]
        held = believed(statistics.whitened(negatives), [known[slot]], others)
        for mean in negatives[held]:
            rows = statistics.varied.draw(mean, _DENIED_ROWS, rng)
            kind = NEITHER
            if isinstance(statistics, JointStatistics):
                kind = SOUND if statistics.is_sound(mean[None]) else WORD
            sounds.append(Sound(other_slot, rows, rows[:0], min(_DENIED, _ALL_DENIED / held.sum()), kind))
    return sounds


def _no_label_s(clips: Floats, label: str, heard: Heard, statistics: EmbeddingStatistics) -> Floats:
    """Return those clips, float32 [clips, variants, numbers], not of a label, that are no other label's either."""
    means = [takes.mean(axis=(0, 1)) for other, takes in heard.takes.items() if other != label]
    if not means:
        return clips
    cosines = statistics.whitened(clips.mean(axis=1)) @ statistics.whitened(np.stack(means)).T
    return np.asarray(clips[cosines.max(axis=1) < SAME_SOUND])
