"""What an owner's correction is worth to a fleet, and what lies do to it.

Ten devices have four words, two of which are easily confused with others: `go` is taken for `no`, `off` for `up`. One
owner denies up to three clips of either that the device took for the word. After a round of prototypes those devices
are judged that denied nothing. Liars, three of the ten, deny the words themselves: with all their clips of them; or,
knowing the fleet's prototypes and rules, with as much as they may send as near to the word as a device just believes.

Every figure is a mean over devices and seeds, in per cent: ``taken`` of strangers' `go` and `off` that are taken for
the word, ``others`` of their other words that are taken for any of the four, ``missed`` of their four words. ``kept``:
devices of the six that refuse the round.

No word of the ten is among those that a device knows from the pretraining, as if an owner had made it up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from aggregator_server.aggregation.contract import Contribution
from aggregator_server.rounds.plan import make_plan
from aggregator_server.schemas import RoundRequest
from benchmarks.gain.deal import WORDS, Dealt, Fleet, Words
from edge_client.learning.negative_prototypes import ITSELF
from edge_client.learning.rounds.client_update import RoundContext
from edge_client.learning.rounds.model_selection import Listener
from edge_client.learning.rounds.prototype_sharing import PrototypeExchange
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.arrays import Bools, Floats, Ints
from fleet_protocol.bundle import Bundle
from fleet_protocol.fleet_prototypes import FleetPrototypes
from fleet_protocol.limits import NEGATIVES
from fleet_protocol.messages import ClassInfo
from fleet_protocol.public_set import PublicSet
from fleet_simulator.simulation.aggregator import Aggregator, FleetState, Uploads
from fleet_simulator.simulation.heads import Heads
from fleet_simulator.simulation.tasks import device_id

LABELS = ("yes", "no", "up", "left")
TAKEN_FOR = {"go": "no", "off": "up"}
NOBODY, CORRECTED, LIES, BESIDE, BOTH, BOTH_BESIDE = PLANS = (
    "nobody corrects",
    "one owner corrects",
    "three lie",
    "three lie beside the word",
    "one owner corrects, three lie",
    "one owner corrects, three lie beside the word",
)
FIGURES = ("taken", "others", "missed")
FLEET = Fleet("corrections", devices=10, clips=80, held_out=0)
_OWNER, _LIARS = 0, (1, 2, 3)
_CLIPS = 3  # of a word that the owner denies


@dataclass(frozen=True)
class Judged:
    """How a device's listening model does on clips by people whom nobody knows, bool [clips]."""

    taken: Bools  # which clips of the other words it takes for the word that each resembles
    others: Bools  # which clips of words that resemble none it takes for any
    missed: Bools  # which clips of the four words it misses
    kept: bool  # whether it refused what the round made


def without(bundle: Bundle, words: tuple[str, ...]) -> Bundle:
    """Return a bundle whose device does not know some words of the pretraining."""
    statistics = bundle.manifest.embedding_statistics
    assert statistics is not None
    kept = [place for place, word in enumerate(statistics.words) if word not in words]
    left = replace(
        statistics,
        means=statistics.means[kept],
        words=tuple(statistics.words[place] for place in kept),
        counts=statistics.counts[kept],
        samples=statistics.samples[kept],
        varied=replace(statistics.varied, means=statistics.varied.means[kept]),
    )
    background = tuple(name for name in bundle.manifest.background if name not in words)
    return replace(bundle, manifest=replace(bundle.manifest, statistics=(left.pack(),), background=background))


class CorrectedFleet:
    """A fleet whose devices have four words."""

    def __init__(self, bundle: Bundle, words: Words, dealt: Dealt, seed: int) -> None:
        """Make the public set, and let each device take part in a round in which nobody denies anything."""
        self._words = words
        self._dealt = dealt
        self._seed = seed
        self._model = ModelRuntime(without(bundle, WORDS))
        self._heads = Heads(self._model, bundle.weights, words.nothing)
        self._classes = tuple(ClassInfo(word, word) for word in LABELS)
        rows = dealt.public[np.isin(words.words[dealt.public], LABELS)]
        labels = np.array([LABELS.index(word) for word in words.words[rows]], np.int64)
        features = words.embeddings[rows, 0][:, None]
        settings = bundle.manifest.feature_settings
        self._public_set = PublicSet(settings, self._classes, features, labels, np.zeros(len(rows), np.bool_))
        self._plain = self._round({})
        self._before = [self._fit(number, self._plain) for number in range(len(dealt.devices))]

    def judged(self, plan: str) -> Iterator[Judged]:
        """Yield how each device does that neither denied anything nor lied."""
        denied: dict[int, Mapping[str, Floats]] = {}
        if plan in (CORRECTED, BOTH, BOTH_BESIDE):
            denied[_OWNER] = self._corrections()
        if plan in (LIES, BOTH):
            denied |= {number: {label: self._takes(number)[label] for label in TAKEN_FOR.values()} for number in _LIARS}
        found = self._round(denied, beside=plan in (BESIDE, BOTH_BESIDE))
        for number, before in enumerate(self._before):
            if number in (_OWNER, *_LIARS):
                continue
            result, takes = self._fit(number, found), self._takes(number)
            kept = plan != NOBODY and self._heads.refuses(before, result, takes, self._public_set)
            yield self._judge(before if kept else result, kept=kept)

    def _rows(self, number: int, word: str) -> Ints:
        rows = self._dealt.devices[number]
        return np.asarray(rows[self._words.words[rows] == word])

    def _takes(self, number: int) -> dict[str, Floats]:
        found = {word: self._words.embeddings[self._rows(number, word)] for word in LABELS}
        return {word: clips for word, clips in found.items() if len(clips)}

    def _corrections(self) -> dict[str, Floats]:
        """Return by word the clips that the owner's device takes for it most surely."""
        found = {}
        for word, label in TAKEN_FOR.items():
            rows = self._rows(_OWNER, word)
            slot = self._before[_OWNER].label_map.slot_of(label)
            scores = self._scores(self._before[_OWNER], rows)
            rows = rows[np.argsort(-scores[:, slot])]
            taken = rows[: min(_CLIPS, int((scores.argmax(axis=1) == slot).sum()))]
            found[label] = self._words.embeddings[taken]
        return {label: clips for label, clips in found.items() if len(clips)}

    def _beside(self, label: str, rng: np.random.Generator) -> Floats:
        """Return sounds about a word that devices just believe to be none of it, float32 [sounds, 1, numbers].

        In whitened numbers each lies off the word's prototype m at a right angle to it, at r = |m| tan(angle).
        """
        statistics = self._heads.statistics
        centre = statistics.means.mean(axis=0, dtype=np.float64)
        word = (self._plain.means[self._plain.class_ids.index(label), 0] - centre) @ statistics.whitening
        cosine, length = ITSELF - 0.01, np.linalg.norm(word)
        off = rng.standard_normal((NEGATIVES, len(word)))
        off -= np.outer(off @ word / length**2, word)
        off *= length * np.sqrt(1 / cosine**2 - 1) / np.linalg.norm(off, axis=1, keepdims=True)
        beside = centre + np.linalg.solve(statistics.whitening.T, (word + off).T).T
        return np.asarray(beside[:, None], np.float32)

    def _round(self, denied: Mapping[int, Mapping[str, Floats]], *, beside: bool = False) -> FleetPrototypes:
        """Run a round of prototypes in which devices deny clips of labels; ``beside``: the liars lie in that way."""
        plan = make_plan(RoundRequest("prototypes", seed=self._seed))
        aggregator = Aggregator("prototypes", plan, FleetState(self._public_set))
        work, context = aggregator.work("contribute", 1, plan), RoundContext(self._public_set, None)
        sent = []
        for number in range(len(self._dealt.devices)):
            takes = self._takes(number)
            label_map = self._heads.label_map(self._classes, takes)
            exchange = PrototypeExchange(self._model.manifest, label_map, work, context)
            update, arrays = exchange.contribute(
                takes, device_id(number), share_names=False, rejected=denied.get(number)
            )
            if beside and number in _LIARS:
                rng = np.random.default_rng([self._seed, number])
                update = replace(update, negatives=tuple(np.repeat(list(TAKEN_FOR.values()), NEGATIVES).tolist()))
                arrays["negatives"] = np.concatenate([self._beside(label, rng) for label in TAKEN_FOR.values()])
                arrays["negative_counts"] = np.full(len(update.negatives), 100, np.float32)
            sent.append(Contribution(update, partial(dict, arrays)))
        result, _ = aggregator.close(work, Uploads(sent))
        assert result.prototypes is not None
        return result.prototypes

    def _fit(self, number: int, found: FleetPrototypes) -> Listener:
        takes = self._takes(number)
        denied = {} if found.negatives is None else found.negatives.of_classes()
        centres = self._heads.centres(found, self._seed)
        label_map, seed = self._heads.label_map(self._classes, takes), 1000 * self._seed + number
        return self._heads.fit(label_map, takes, seed, self._public_set, centres, denied=denied)

    def _scores(self, listener: Listener, rows: Ints) -> Floats:
        self._model.set_weights(listener.weights)
        x = self._model.normalise(self._words.embeddings[rows, 0][:, None])
        return self._model.predict(x, listener.label_map.listening_mask)

    def _judge(self, listener: Listener, *, kept: bool) -> Judged:
        rows = self._dealt.strangers
        said: NDArray[np.str_] = self._words.words[rows]
        names = np.array([*listener.label_map.names, *[""] * listener.label_map.capacity])
        heard = names[self._scores(listener, rows).argmax(axis=1)]
        meant = np.array([TAKEN_FOR.get(word, "-") for word in said])
        is_label, resembles = np.isin(said, LABELS), meant != "-"
        return Judged(
            (heard == meant)[resembles], np.isin(heard, LABELS)[~is_label & ~resembles], (heard != said)[is_label], kept
        )
