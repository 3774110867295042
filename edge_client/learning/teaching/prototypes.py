"""Prototypes: where in the embedding the takes of each label lie, with which a scorer compares windows."""

from __future__ import annotations

import numpy as np

from edge_client.clips.folders import SOUND
from edge_client.detection.scores import MANY, TABLE, ScoreTable
from edge_client.learning.teaching.heard import Before
from edge_client.learning.teaching.material import Material, Sound
from edge_client.model.prototypes import Prototype
from fleet_protocol.numbers.arrays import Doubles, Floats
from fleet_protocol.numbers.embedding_statistics import EmbeddingStatistics

_MOST = 24  # takes that count singly


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
    if label in heard.parts:
        parts = heard.parts[label].swapaxes(0, 1)
        whole += [prototype(part, statistics, part[:, None], built_in=built_in, table=table) for part in parts]
    if len(one.rows):
        before = heard.before.get(label)
    elif (before := material.fleet.before.get(material.label_map.class_ids[one.slot] or "")) is not None:
        whole += [prototype(part, statistics, table=table) for part in before.rows]
    most = max(map(len, whole))  # parts of some takes alone are known: the others' stand there twice
    stacked = np.stack([np.resize(takes, (most, takes.shape[1])) for takes in whole])
    rejected = None
    if label in heard.rejected:
        clips = heard.rejected[label]
        rows = prototype(clips.reshape(-1, clips.shape[-1]), statistics, clips, table=table)[None]
        rejected = Prototype(rows, _before(heard.rejected_before.get(label), material, table))
    return Prototype(stacked, _before(before, material, table), rejected)


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
