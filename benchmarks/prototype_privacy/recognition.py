"""What the noise costs: how well a word that a device never heard is recognised from the means of other devices.

Each device has one person with five takes, or four with five each. A receiver has public recordings of eight words and
the mean of the devices' means. It decides in two ways.

- ``nearest``: by the whitened distances to the mean and to the nearest of the known words. The difference from which
  on a sound counts as the new word is such that 1 % of the public recordings are taken for it.
- ``head``: by a bundle's linear head, trained on the public recordings and draws around the mean, without a threshold.
  The draws scatter by 1 + (1 + v) / devices times the covariance within a word; v is the variance of the noise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.prototype_privacy.corpus import WORDS, Corpus
from edge_client.learning.prototype_noise import private_mean, sensitivity
from edge_client.learning.sgd import Optimiser, train_epoch
from edge_client.learning.targets import from_slots
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.arrays import Bools, Doubles, Floats, Ints
from fleet_protocol.labels import LabelMap

KNOWN, NEW = WORDS[:8], WORDS[8:]
FLEETS = ((1, 1), (1, 4), (1, 8), (4, 1), (4, 4), (4, 8))
"""People of a device, and devices."""
HEAD_FLEETS = ((1, 8), (4, 8))
TAKES = 5
_PUBLIC, _TEST = 0.3, 0.2
_PUBLIC_CLIPS, _DRAWS, _TAKEN = 100, 200, 0.01
_NAME = "new"
_EPOCHS, _SETTLE_AT, _RATE = 25, 18, 0.02


@dataclass(frozen=True)
class _Split:
    """One trial: the rows of public recordings of known words, of takes by person, and of what is judged by.

    ``z`` is the whitened corpus, ``nearest`` the squared distance of every clip to the nearest known word.
    """

    public: Ints
    takes: list[Ints]
    test: Ints
    z: Doubles
    nearest: Doubles


def measure(corpus: Corpus, bundle: Path, clip_norm: float, noises: list[float], seeds: range) -> list[dict[str, Any]]:
    """Run a trial of every seed and new word; return means over them, in per cent.

    The new word's clips that are ``recognised``, and those that are taken for it: of known words ``mistaken``, of all
    other words ``others``.
    """
    found: dict[tuple[str, int, int, float], list[tuple[float, float, float]]] = defaultdict(list)
    z = corpus.whitened(corpus.embeddings)
    for seed in seeds:
        for word in NEW:
            rng = np.random.default_rng([seed, NEW.index(word)])
            for key, shares in _trial(corpus, bundle, clip_norm, noises, word, _split(corpus, z, word, rng), rng):
                found[key].append(shares)
    results = []
    for (rule, people, devices, noise), rows in found.items():
        means = [round(float(share), 1) for share in np.mean(rows, axis=0)]
        row = {"rule": rule, "people": people, "clips": people * TAKES, "devices": devices, "noise": noise}
        row |= dict(zip(("recognised", "mistaken", "others"), means, strict=True))
        results.append(row | {"trials": len(rows)})
    return results


def _trial(
    corpus: Corpus,
    bundle: Path,
    clip_norm: float,
    noises: list[float],
    word: str,
    split: _Split,
    rng: np.random.Generator,
) -> Iterator[tuple[tuple[str, int, int, float], tuple[float, float, float]]]:
    """Yield what is measured, and (recognised, mistaken, others)."""
    is_new, is_known = corpus.words[split.test] == word, np.isin(corpus.words[split.test], KNOWN)
    for noise in noises:
        for people, devices in FLEETS:
            held = [np.concatenate(split.takes[i * people : (i + 1) * people]) for i in range(devices)]
            sent = [private_mean(corpus.embeddings[rows], corpus.statistics, clip_norm, noise, rng) for rows in held]
            mean = np.mean(sent, axis=0, dtype=np.float64)
            taken = {"nearest": _nearest(corpus, split, mean)}
            if (people, devices) in HEAD_FLEETS:
                variance = (noise * sensitivity(clip_norm, people * TAKES)) ** 2
                draws = _draws(corpus, mean, 1 + (1 + variance) / devices, rng)
                taken["head"] = _head(corpus, split, bundle, draws, rng)
            for rule, found in taken.items():
                shares = (found[is_new].mean(), found[is_known].mean(), found[~is_new & ~is_known].mean())
                yield (rule, people, devices, noise), (100 * shares[0], 100 * shares[1], 100 * shares[2])


def _split(corpus: Corpus, z: Doubles, word: str, rng: np.random.Generator) -> _Split:
    """Deal the speakers to the public recordings, the test, and the devices."""
    speakers = rng.permutation(np.unique(corpus.speakers))
    places = np.cumsum([_PUBLIC, _TEST]) * len(speakers)
    public, test, private = (np.isin(corpus.speakers, part) for part in np.split(speakers, places.astype(int)))
    recordings = [rng.permutation(np.flatnonzero(public & (corpus.words == known)))[:_PUBLIC_CLIPS] for known in KNOWN]
    rows = rng.permutation(np.flatnonzero(private & (corpus.words == word)))
    takes = [own for who in np.unique(corpus.speakers[rows]) if len(own := rows[corpus.speakers[rows] == who]) >= TAKES]
    drawn = [takes[place][:TAKES] for place in rng.permutation(len(takes))]
    centres = [z[rows].mean(axis=0) for rows in recordings]
    nearest = np.min([np.square(z - centre).sum(axis=1) for centre in centres], axis=0)
    return _Split(np.concatenate(recordings), drawn, np.flatnonzero(test), z, nearest)


def _nearest(corpus: Corpus, split: _Split, mean: Doubles) -> Bools:
    """Return which test clips are taken for the new word, bool [clips]."""
    nearer = split.nearest - np.square(split.z - corpus.whitened(mean[None])).sum(axis=1)
    return np.asarray(nearer[split.test] > np.quantile(nearer[split.public], 1 - _TAKEN))


def _draws(corpus: Corpus, mean: Doubles, variance: float, rng: np.random.Generator) -> Floats:
    scattered = corpus.statistics.draw(np.zeros_like(mean), _DRAWS, rng)
    return np.asarray(mean + np.sqrt(variance) * scattered, np.float32)


def _head(corpus: Corpus, split: _Split, bundle: Path, draws: Floats, rng: np.random.Generator) -> Bools:
    """Return which test clips a trained head takes for the new word, bool [clips]."""
    model = ModelRuntime.open(bundle)
    capacity, reserved = model.manifest.capacity, len(model.manifest.background)
    labels = LabelMap(capacity, reserved=reserved).adopt((word, word) for word in (*KNOWN, _NAME))
    words = [*corpus.words[split.public], *[_NAME] * len(draws)]
    x = model.normalise(np.concatenate([corpus.embeddings[split.public], draws])[:, None])
    targets = from_slots(np.array([labels.slot_of(str(word)) for word in words]), capacity)
    for epoch in range(_EPOCHS):
        train_epoch(model, x, targets, labels.mask, Optimiser(_RATE if epoch < _SETTLE_AT else _RATE / 4), rng)
    scores = model.predict(model.normalise(corpus.embeddings[split.test][:, None]), labels.mask)
    return np.asarray(scores.argmax(axis=1) == labels.slot_of(_NAME))
