"""What a device listens with on an embedding front end, under each plan: heads as the device itself fits them.

Weights are not shared here. After a round of a strategy that shares them, a device on such a front end fits its head
again, from its own clips and the public set (docs/teaching.md): it listens with what "own and public" gives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aggregator_server.aggregation.contract import Assigned, Contribution, RoundInputs
from aggregator_server.rounds.plan import make_plan
from aggregator_server.schemas import RoundRequest
from aggregator_server.strategies.prototypes import aggregate
from benchmarks.gain.deal import Dealt
from benchmarks.gain.embeddings import Words
from edge_client.config.sections import TrainingConfig
from edge_client.learning.class_links import adopt_classes, link_recognised, take_labels, unlinked
from edge_client.learning.new_sounds.prototypes import prototypes
from edge_client.learning.teaching.head import train_head
from edge_client.learning.teaching.head_material import Heard, head_material
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.arrays import Floats, Ints
from fleet_protocol.bundle import Bundle
from fleet_protocol.labels import LabelMap
from fleet_protocol.messages import ClassAssignment, ClassInfo, ClassReport, Update
from fleet_protocol.public_set import PublicSet

PLANS = ("alone", "public only", "own and public", "prototypes")


@dataclass(frozen=True)
class Judged:
    """How a device's listening model does, in per cent of clips; nan where there are none.

    Attributes:
        own: on its own people's clips that it did not learn from.
        strangers: on people whom nobody knows, all words.
        never_heard: on their clips of the words that the device has no clip of.
    """

    own: float
    strangers: float
    never_heard: float


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
        self._classes = tuple(ClassInfo(word, word) for word in dealt.known)
        rows = dealt.public
        labels = np.array([dealt.known.index(word) for word in words.words[rows]], np.int64)
        features = words.embeddings[rows, 0][:, None]
        settings = bundle.manifest.feature_settings
        self._public_set = PublicSet(settings, self._classes, features, labels, np.zeros(len(rows), np.bool_))

    def judged(self, plan: str) -> Iterator[Judged]:
        """Yield how each device does under a plan."""
        numbers = range(len(self._dealt.devices))
        maps: Sequence[LabelMap] = [self._labels(() if plan == "public only" else self._takes(n)) for n in numbers]
        found: Mapping[str, Floats] = {}
        public_set = None if plan == "alone" else self._public_set
        if plan == "prototypes":
            maps, found, public_set = self._round(maps)
        for number, label_map in enumerate(maps):
            takes = {} if plan == "public only" else self._takes(number)
            yield self._judge(number, label_map, Heard(takes, self._words.nothing, self._none()), public_set, found)

    def _labels(self, taught: Iterable[str]) -> LabelMap:
        manifest = self._bundle.manifest
        start = LabelMap(manifest.capacity, reserved=len(manifest.background))
        known = start.adopt((info.class_id, info.name) for info in self._classes)
        return take_labels(known, tuple(taught), self._classes)

    def _takes(self, number: int) -> dict[str, Floats]:
        rows = self._dealt.devices[number]
        said = self._words.words[rows]
        return {str(word): self._words.embeddings[rows[said == word]] for word in np.unique(said)}

    def _round(self, maps: Sequence[LabelMap]) -> tuple[list[LabelMap], dict[str, Floats], PublicSet]:
        """Run a round of the strategy; return the devices' labels after it, the fleet's prototypes and public set."""
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
        found = dict(zip(result.prototypes.class_ids, result.prototypes.means, strict=True))
        return after, found, result.public_set

    def _upload(self, number: int, label_map: LabelMap) -> Contribution:
        takes = self._takes(number)
        slots = np.concatenate([np.full(len(clips), label_map.slot_of(word)) for word, clips in takes.items()])
        new = [slot for slot in unlinked(label_map) if slot in slots]
        known = sorted(set(slots.tolist()) - set(new))
        means = prototypes(np.concatenate([clips[:, :1] for clips in takes.values()]), slots, [*known, *new])
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

    def _judge(
        self, number: int, label_map: LabelMap, heard: Heard, public_set: PublicSet | None, found: Mapping[str, Floats]
    ) -> Judged:
        statistics = self._bundle.manifest.embedding_statistics
        assert statistics is not None
        known = range(len(label_map.slots)) if public_set is not None else ()
        material = head_material(label_map, known, heard, statistics, public_set, self._imagined, found)
        training = TrainingConfig()
        weights = train_head(
            self._model, self._bundle.weights, label_map, material, training.teach_epochs,
            training.teach_learning_rate, self._seed + number,
        )  # fmt: skip
        self._model.set_weights(weights)
        mine, strangers = self._dealt.held_out[number], self._dealt.strangers
        lacking = strangers[~np.isin(self._words.words[strangers], self._words.words[self._dealt.devices[number]])]
        return Judged(*(self._right(label_map, rows) for rows in (mine, strangers, lacking)))

    def _right(self, label_map: LabelMap, rows: Ints) -> float:
        """Return how many clips are recognised as their word, whatever the device calls it, in per cent."""
        if not len(rows):
            return float("nan")
        x = self._model.normalise(self._words.embeddings[rows, 0][:, None])
        best = self._model.predict(x, label_map.listening_mask).argmax(axis=1)
        said = [self._meant.get(str(slot.class_id), slot.name) for slot in label_map.slots]
        heard = np.array([*said, *[""] * (label_map.capacity - len(said))])[best]
        return 100 * float(np.mean(heard == self._words.words[rows]))

    def _imagined(self, slot: int) -> Floats:
        raise AssertionError(f"nothing tells of slot {slot}")

    def _none(self) -> Floats:
        return np.zeros((0, self._words.nothing.shape[1]), np.float32)


def _meant(assignments: Sequence[Assigned], maps: Sequence[LabelMap]) -> dict[str, str]:
    """Return the word that most of a new class's reporters mean by it."""
    votes: dict[str, Counter[str]] = {}
    for item in assignments:
        votes.setdefault(item.class_id, Counter())[maps[int(item.device_id, 16)].names[item.slot]] += 1
    return {class_id: counted.most_common(1)[0][0] for class_id, counted in votes.items()}


def _device_id(number: int) -> str:
    return f"{number:032x}"
