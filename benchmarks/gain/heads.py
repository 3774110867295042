"""What a device listens with on an embedding front end, under each plan: heads as the device fits and guards them.

After a round of any strategy but prototypes, a device with a microphone on such a front end fits its head again, from
its own clips and the public set (docs/teaching.md): the plan "fedavg and others". Nothing else of the round is in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from aggregator_server.aggregation.contract import Assigned, Contribution, RoundInputs
from aggregator_server.rounds.plan import make_plan
from aggregator_server.schemas import RoundRequest
from aggregator_server.strategies.prototypes import aggregate
from benchmarks.gain.deal import Dealt
from benchmarks.gain.embeddings import Words
from edge_client.config.sections import TrainingConfig
from edge_client.learning.class_links import adopt_classes, link_recognised, take_labels, unlinked
from edge_client.learning.new_sounds.class_means import class_means
from edge_client.learning.rounds.guard import Evidence, Listener, judge, public_rows
from edge_client.learning.teaching.fleet_centres import centres
from edge_client.learning.teaching.head import train_head
from edge_client.learning.teaching.head_material import Heard, head_material
from edge_client.learning.training_data import Clips
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.arrays import Bools, Floats, Ints
from fleet_protocol.bundle import Bundle
from fleet_protocol.embedding_statistics import EmbeddingStatistics
from fleet_protocol.labels import LabelMap
from fleet_protocol.messages import ClassAssignment, ClassInfo, ClassReport, Update
from fleet_protocol.public_set import PublicSet

ALONE, AGAIN, PUBLIC_ONLY, OTHERS, PROTOTYPES = PLANS = (
    "alone",
    "alone, fitted again",
    "public only",
    "fedavg and others",
    "prototypes",
)
# Plans of the fleet: the device may refuse what they come to.
_ROUNDS = (OTHERS, PROTOTYPES)


@dataclass(frozen=True)
class Judged:
    """How a device's listening model does, by clip: whether it is recognised as its word.

    Attributes:
        own: its own people's clips that it did not learn from, bool [clips].
        strangers: clips by people whom nobody knows, all words, bool [clips].
        never_heard: those of them whose word the device has no clip of, bool [clips].
        kept_own: whether the device refused the plan's model.
    """

    own: Bools
    strangers: Bools
    never_heard: Bools
    kept_own: bool = False


@dataclass(frozen=True)
class _Round:
    """What the aggregator sends after a round: labels of every device, public set, and centres by class."""

    maps: Sequence[LabelMap]
    public_set: PublicSet | None
    centres: Mapping[str, Floats]


class EmbeddingFleet:
    """A fleet whose devices have the same embedding front end."""

    def __init__(self, bundle: Bundle, words: Words, dealt: Dealt, seed: int) -> None:
        """Make the public set.

        Args:
            bundle: of every device.
            words: all clips.
            dealt: who has which.
            seed: of the devices' training.
        """
        self._bundle = bundle
        self._words = words
        self._dealt = dealt
        self._seed = seed
        self._model = ModelRuntime(bundle)
        self._meant: dict[str, str] = {}
        self._alone: dict[int, Listener] = {}
        self._classes = tuple(ClassInfo(word, word) for word in dealt.known)
        rows = dealt.public
        labels = np.array([dealt.known.index(word) for word in words.words[rows]], np.int64)
        features = words.embeddings[rows, 0][:, None]
        settings = bundle.manifest.feature_settings
        self._public_set = PublicSet(settings, self._classes, features, labels, np.zeros(len(rows), np.bool_))

    def judged(self, plan: str) -> Iterator[Judged]:
        """Yield how each device does under a plan."""
        came = self._round() if plan == PROTOTYPES else self._without_a_round(plan)
        public_only = self._fit(0, self._labels(()), {}, came) if plan == PUBLIC_ONLY else None
        for number, label_map in enumerate(came.maps):
            listener, kept_own = public_only or self._own(number), False
            if plan in (AGAIN, *_ROUNDS):
                result = self._fit(number, label_map, self._takes(number), came, again=plan == AGAIN)
                kept_own = plan in _ROUNDS and self._refuses(number, result, came)
                listener = listener if kept_own else result
            yield self._judge(number, listener, kept_own)

    def _own(self, number: int) -> Listener:
        """Return what a device listens with alone."""
        if number not in self._alone:
            alone = self._without_a_round(ALONE)
            self._alone[number] = self._fit(number, alone.maps[number], self._takes(number), alone)
        return self._alone[number]

    def _without_a_round(self, plan: str) -> _Round:
        maps = [self._labels(self._takes(number)) for number in range(len(self._dealt.devices))]
        return _Round(maps, None if plan in (ALONE, AGAIN) else self._public_set, {})

    def _labels(self, taught: Iterable[str]) -> LabelMap:
        manifest = self._bundle.manifest
        start = LabelMap(manifest.capacity, reserved=len(manifest.background))
        known = start.adopt((info.class_id, info.name) for info in self._classes)
        return take_labels(known, tuple(taught), self._classes)

    def _takes(self, number: int) -> dict[str, Floats]:
        rows = self._dealt.devices[number]
        said = self._words.words[rows]
        return {str(word): self._words.embeddings[rows[said == word]] for word in np.unique(said)}

    def _round(self) -> _Round:
        """Run a round of prototypes."""
        maps = self._without_a_round(ALONE).maps
        inputs = RoundInputs(
            round_id=1,
            plan=make_plan(RoundRequest("prototypes", seed=self._seed)),
            public_set=self._public_set,
            consensus=np.zeros((len(self._public_set.labels), len(self._classes)), np.float32),
            contributions=tuple(self._upload(number, label_map) for number, label_map in enumerate(maps)),
            has_consensus=False,
        )
        result = aggregate(inputs)
        assert result.prototypes is not None
        self._meant = _meant(result.assignments, maps)
        after = []
        for number, label_map in enumerate(maps):
            mine = [a for a in result.assignments if a.device_id == _device_id(number)]
            linked = link_recognised(label_map, [ClassAssignment(a.slot, a.class_id) for a in mine])
            after.append(adopt_classes(linked, result.public_set.classes))
        found = centres(result.prototypes, self._statistics, np.random.default_rng([self._seed, 4]))
        return _Round(after, result.public_set, found)

    def _upload(self, number: int, label_map: LabelMap) -> Contribution:
        takes = self._takes(number)
        slots = np.concatenate([np.full(len(clips), label_map.slot_of(word)) for word, clips in takes.items()])
        new = [slot for slot in unlinked(label_map) if slot in slots]
        known = sorted(set(slots.tolist()) - set(new))
        means = class_means(np.concatenate([clips[:, :1] for clips in takes.values()]), slots, [*known, *new])
        counts = np.array([np.count_nonzero(slots == slot) for slot in (*known, *new)], np.float32)
        class_ids = tuple(str(label_map.class_ids[slot]) for slot in known)
        update = Update(
            round_id=1,
            device_id=_device_id(number),
            features=self._public_set.settings.digest,
            public_set="",
            classes=class_ids,
            known=class_ids,
            clips=len(slots),
            reports=tuple(ClassReport(slot, None, int(np.count_nonzero(slots == slot))) for slot in new),
        )
        return Contribution(update, lambda: {"prototypes": means, "counts": counts})

    def _fit(
        self, number: int, label_map: LabelMap, takes: Mapping[str, Floats], came: _Round, *, again: bool = False
    ) -> Listener:
        """Fit a head as teaching does; ``again``: with other random numbers."""
        known = range(len(label_map.slots)) if came.public_set is not None else ()
        heard = Heard(takes, self._words.nothing, np.zeros((0, self._words.nothing.shape[1]), np.float32))
        material = head_material(
            label_map, known, heard, self._statistics, came.public_set, self._imagined, came.centres
        )
        training, seed = TrainingConfig(), 1000 * (2 * self._seed + again) + number
        own = self._own(number).weights if material.own is not None else None
        weights = train_head(
            self._model,
            self._bundle.weights,
            label_map,
            material,
            training.teach_epochs,
            training.teach_learning_rate,
            seed,
            own,
        )
        return Listener(weights, label_map)

    def _refuses(self, number: int, result: Listener, came: _Round) -> bool:
        """Tell whether the device keeps the model that it had alone, as edge_client/learning/rounds/choice.py does."""
        assert came.public_set is not None
        own, rows, labels = self._own(number), self._dealt.devices[number], result.label_map
        new = tuple(range(len(own.label_map.slots), len(labels.slots)))
        taught = Clips(
            self._normalised(self._words.embeddings[rows, 0])[None],
            np.array([own.label_map.slot_of(word) for word in self._words.words[rows]], np.int64),
        )
        x = self._model.normalise(came.public_set.features)
        public = public_rows(came.public_set, x, labels, set(), set(taught.slots.tolist()))
        present = Listener(own.weights, replace(labels, off=new))
        return judge(self._model, present, result, Evidence(taught, "taught", public, taught=True)).kept_own

    def _judge(self, number: int, listener: Listener, kept_own: bool) -> Judged:
        mine, strangers = self._dealt.held_out[number], self._dealt.strangers
        lacking = ~np.isin(self._words.words[strangers], self._words.words[self._dealt.devices[number]])
        of_strangers = self._right(listener, strangers)
        return Judged(self._right(listener, mine), of_strangers, of_strangers[lacking], kept_own)

    def _right(self, listener: Listener, rows: Ints) -> Bools:
        """Return which clips are recognised as their word, whatever the device calls it, bool [rows]."""
        label_map = listener.label_map
        self._model.set_weights(listener.weights)
        x = self._normalised(self._words.embeddings[rows, 0])
        best = self._model.predict(x, label_map.listening_mask).argmax(axis=1)
        said = [self._meant.get(str(slot.class_id), slot.name) for slot in label_map.slots]
        heard = np.array([*said, *[""] * (label_map.capacity - len(said))])[best]
        return np.asarray(heard == self._words.words[rows])

    def _normalised(self, embeddings: Floats) -> Floats:
        return self._model.normalise(embeddings[:, None])

    @property
    def _statistics(self) -> EmbeddingStatistics:
        statistics = self._bundle.manifest.embedding_statistics
        assert statistics is not None
        return statistics

    def _imagined(self, slot: int) -> Floats:
        raise AssertionError(f"nothing tells of slot {slot}")


def _meant(assignments: Sequence[Assigned], maps: Sequence[LabelMap]) -> dict[str, str]:
    """Return the word that most of a new class's reporters mean by it."""
    votes: dict[str, Counter[str]] = {}
    for item in assignments:
        votes.setdefault(item.class_id, Counter())[maps[int(item.device_id, 16)].names[item.slot]] += 1
    return {class_id: counted.most_common(1)[0][0] for class_id, counted in votes.items()}


def _device_id(number: int) -> str:
    return f"{number:032x}"
