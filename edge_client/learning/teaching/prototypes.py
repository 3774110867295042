"""Prototypes: where in the embedding the takes of each label lie, with which a scorer compares windows."""

from __future__ import annotations

import numpy as np

from edge_client.clips.folders import SOUND
from edge_client.detection.scores import MANY, TABLE, ScoreTable, cosines_to
from edge_client.learning.teaching.heard import Before
from edge_client.learning.teaching.material import Material, Sound
from edge_client.model.prototypes import Prototype
from fleet_protocol.numbers.arrays import Doubles, Floats
from fleet_protocol.numbers.embedding_statistics import EmbeddingStatistics

_MOST = 24  # takes that count singly
_FEWEST = 3  # takes of which each is compared with the others


def prototypes_of(material: Material, table: ScoreTable = TABLE) -> dict[str, Prototype]:
    """Return the prototypes of labels: of takes and recordings, else of the centres that are known.

    Of a class with neither takes nor recordings its parts are the windows that came before it.
    """
    names, statistics = material.label_map.names, material.statistics
    nothing, found = np.zeros((0, statistics.means.shape[1]), np.float32), {}
    for one in material.sounds:
        label = names[one.slot] if one.slot < len(names) else ""
        rows = one.rows if len(one.rows) else one.centres
        if label and material.kinds[label] == SOUND:
            found[label] = Prototype(prototype(rows, statistics, sound=True, table=table)[None], nothing)
        elif label:
            found[label] = _of_word(one, label, rows, material, table)
    return found


def _of_word(one: Sound, label: str, rows: Floats, material: Material, table: ScoreTable) -> Prototype:
    statistics, heard, built_in = material.statistics, material.heard, label in material.built_in_words
    whole = [prototype(rows, statistics, _takes(label, material), built_in=built_in, table=table)]
    whole += _parts(label, material, table)
    if len(one.rows):
        before = heard.before.get(label)
    elif (before := material.fleet.before.get(material.label_map.class_ids[one.slot] or "")) is not None:
        whole += [prototype(part, statistics, table=table) for part in before.rows]
    stacked = _stacked(whole)
    neutral = 1.0 if built_in or label not in heard.takes else _own_cosine(label, material, table)
    rejected = None
    if label in heard.rejected:
        clips = heard.rejected[label]
        rows = prototype(clips.reshape(-1, clips.shape[-1]), statistics, clips, table=table)[None]
        rejected = Prototype(rows, _before(heard.rejected_before.get(label), material, table))
    after = None
    if before is not None and before.after is not None:
        ways = [_mean(statistics.directions_as(rows, sound=False)) for rows in before.after]
        after = np.asarray(ways, np.float32)
    return Prototype(stacked, _before(before, material, table), rejected, neutral, after)


def _parts(label: str, material: Material, table: ScoreTable, without: int | None = None) -> list[Floats]:
    """Return rows of each part of a label's word, float32 [takes, numbers]; ``without``: a take that is left out."""
    found, statistics, built_in = material.heard.parts.get(label), material.statistics, label in material.built_in_words
    if found is None:
        return []
    if without is not None and len(found) == len(material.heard.takes[label]):  # else it is not known which is whose
        found = np.delete(found, without, axis=0)
    parts = found.swapaxes(0, 1)
    return [prototype(part, statistics, part[:, None], built_in=built_in, table=table) for part in parts]


def _stacked(rows: list[Floats]) -> Floats:
    """Return rows of a word and its parts as one array; where parts of some takes are not known, others stand twice."""
    most = max(map(len, rows))
    return np.stack([np.resize(takes, (most, takes.shape[1])) for takes in rows])


def _own_cosine(label: str, material: Material, table: ScoreTable) -> float:
    """Return the median cosine of a word's takes, as they are heard in rooms and noise, to all its other takes.

    Nothing can ask for more: long phrases are less like themselves than short words. 1 of too few takes.
    """
    takes, before, statistics = material.heard.takes[label], material.heard.before.get(label), material.statistics
    count, variants, _ = takes.shape
    if count < _FEWEST or variants < 2:
        return 1.0
    found = []
    for number, own in enumerate(takes):
        others = np.arange(count) != number
        whole = prototype(takes[others].reshape(-1, takes.shape[-1]), statistics, takes[others], table=table)
        ago = order = None
        if before is not None:
            windows = before.rows.reshape(len(before.rows), count, -1, takes.shape[-1])
            ago = np.stack([statistics.directions(rows) for rows in windows[:, number]])
            rest = windows[:, others].reshape(len(windows), -1, takes.shape[-1])
            order = directions_before(rest, before.length_s, statistics, table)
        near = table.word_of(statistics.known).many_are_near if count > MANY else 1
        rows = _stacked([whole, *_parts(label, material, table, without=number)])
        found.append(cosines_to(statistics.directions(own[1:]), ago, rows, order, near, table))
    return float(np.median(found))


def _before(before: Before | None, material: Material, table: ScoreTable) -> Floats:
    if before is None:
        return np.zeros((0, material.statistics.means.shape[1]), np.float32)
    return directions_before(before.rows, before.length_s, material.statistics, table)


def _takes(label: str, material: Material) -> Floats | None:
    """Return a word's takes, float32 [takes, variants, numbers]; what others said of a built-in one counts as such."""
    statistics, words = material.statistics, material.built_in_words
    takes = [material.heard.takes[label]] if label in material.heard.takes else []
    if label in words:
        others = statistics.samples[statistics.words.index(words[label]), :, None]
        takes.append(np.repeat(others, takes[0].shape[1], axis=1) if takes else others)
    return np.concatenate(takes) if takes else None


def prototype(
    embeddings: Floats,
    statistics: EmbeddingStatistics,
    takes: Floats | None = None,
    *,
    sound: bool = False,
    built_in: bool = False,
    table: ScoreTable = TABLE,
) -> Floats:
    """Return rows of a label, float32 [takes, numbers]: the largest product with a window's direction is its cosine.

    That is a weighted mean of the cosines to the mean direction of ``embeddings``, takes and variants, [rows, numbers],
    and to the nearest of some of the takes, float32 [takes, variants, numbers]; without these, of the former alone. Of
    many takes of a word that is not ``built_in`` it is the mean of the three largest products.
    """
    mean = _mean(statistics.directions_as(embeddings, sound=sound))
    if takes is None:
        return np.asarray(mean[None], np.float32)
    some = takes[np.linspace(0, len(takes) - 1, min(len(takes), _MOST)).astype(int)]
    own = np.stack([_mean(statistics.directions_as(variants, sound=sound)) for variants in some])
    worth = table.known_word if built_in else table.word_of(statistics.known)
    share = worth.nearest_of_many if len(own) >= MANY else worth.nearest
    return np.asarray((1 - share) * mean + share * own, np.float32)


def directions_before(
    embeddings: Floats, length_s: float, statistics: EmbeddingStatistics, table: ScoreTable = TABLE
) -> Floats:
    """Return ``Prototype.before`` of a word of a length, s, from embeddings of the windows before its takes'.

    These are float32 [states, windows, numbers], the newest state first.
    """
    counts = np.ones(len(embeddings))
    counts[:1] = min(1.0, (length_s - table.from_s) / (table.fully_s - table.from_s))
    shares = table.before * counts / (1 + table.before * counts[1:].sum())
    directions = [_mean(statistics.directions_as(rows, sound=False)) for rows in embeddings]
    return np.asarray(shares[:, None] * np.stack(directions), np.float32)


def _mean(directions: Doubles) -> Doubles:
    mean = directions.mean(axis=0)
    return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-9))
