"""What a device listens with on an embedding front end, under each plan: heads as the device fits and guards them.

After a round of any strategy but prototypes, a device with a microphone on such a front end fits its head again, from
its own clips and the public set (docs/teaching.md): the plan "fedavg and others". Nothing else of the round is in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from aggregator_server.aggregation.contract import Contribution
from aggregator_server.rounds.plan import make_plan
from aggregator_server.schemas import RoundRequest
from benchmarks.gain.deal import Dealt, Words
from edge_client.learning.rounds.client_update import RoundContext
from edge_client.learning.rounds.model_selection import Listener
from edge_client.learning.rounds.prototype_sharing import PrototypeExchange
from edge_client.model.runtime import ModelRuntime
from fleet_protocol.arrays import Bools, Floats, Ints
from fleet_protocol.bundle import Bundle
from fleet_protocol.labels import LabelMap
from fleet_protocol.messages import ClassAssignment, ClassInfo
from fleet_protocol.public_set import PublicSet
from fleet_simulator.simulation.aggregator import Aggregator, FleetState, Uploads
from fleet_simulator.simulation.heads import Heads
from fleet_simulator.simulation.tasks import device_id

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
    """How a device's listening model does, by clip: whether it is recognised as its word."""

    own: Bools  # its own people's clips that it did not learn from, bool [clips]
    strangers: Bools  # clips by people whom nobody knows, all words, bool [clips]
    never_heard: Bools  # those of them whose word the device has no clip of, bool [clips]
    kept_own: bool = False  # whether the device refused the plan's model


@dataclass(frozen=True)
class _Round:
    """What the aggregator sends after a round: labels of every device, public set, and centres by class."""

    maps: Sequence[LabelMap]
    public_set: PublicSet | None
    centres: Mapping[str, Floats]


class EmbeddingFleet:
    """A fleet whose devices have the same embedding front end."""

    def __init__(self, bundle: Bundle, words: Words, dealt: Dealt, seed: int) -> None:
        """Make the public set."""
        self._words = words
        self._dealt = dealt
        self._seed = seed
        self._model = ModelRuntime(bundle)
        self._heads = Heads(self._model, bundle.weights, words.nothing)
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
        public_only = self._fit(0, self._heads.label_map(self._classes), {}, came) if plan == PUBLIC_ONLY else None
        for number, label_map in enumerate(came.maps):
            listener, kept_own = public_only or self._own(number), False
            if plan in (AGAIN, *_ROUNDS):
                takes = self._takes(number)
                result = self._fit(number, label_map, takes, came, again=plan == AGAIN)
                if plan in _ROUNDS:
                    assert came.public_set is not None
                    kept_own = self._heads.refuses(self._own(number), result, takes, came.public_set)
                listener = listener if kept_own else result
            yield self._judge(number, listener, kept_own)

    def _own(self, number: int) -> Listener:
        """Return what a device listens with alone."""
        if number not in self._alone:
            alone = self._without_a_round(ALONE)
            self._alone[number] = self._fit(number, alone.maps[number], self._takes(number), alone)
        return self._alone[number]

    def _without_a_round(self, plan: str) -> _Round:
        devices = range(len(self._dealt.devices))
        maps = [self._heads.label_map(self._classes, self._takes(number)) for number in devices]
        return _Round(maps, None if plan in (ALONE, AGAIN) else self._public_set, {})

    def _takes(self, number: int) -> dict[str, Floats]:
        rows = self._dealt.devices[number]
        said = self._words.words[rows]
        return {str(word): self._words.embeddings[rows[said == word]] for word in np.unique(said)}

    def _round(self) -> _Round:
        """Run a round of prototypes."""
        plan = make_plan(RoundRequest("prototypes", seed=self._seed))
        aggregator = Aggregator("prototypes", plan, FleetState(self._public_set))
        maps, manifest = self._without_a_round(ALONE).maps, self._model.manifest
        work, context = aggregator.work("contribute", 1, plan), RoundContext(self._public_set, None)
        sent = []
        for number, label_map in enumerate(maps):
            exchange = PrototypeExchange(manifest, label_map, work, context)
            update, arrays = exchange.contribute(self._takes(number), device_id(number), share_names=False)
            sent.append(Contribution(update, partial(dict, arrays)))
        result, _ = aggregator.close(work, Uploads(sent))
        votes: dict[str, Counter[str]] = {}
        for item in result.assignments:
            votes.setdefault(item.class_id, Counter())[maps[int(item.device_id, 16)].names[item.slot]] += 1
        self._meant = {class_id: counted.most_common(1)[0][0] for class_id, counted in votes.items()}
        work, after = aggregator.work("learn", 1, plan), []
        for number, label_map in enumerate(maps):
            mine = [ClassAssignment(a.slot, a.class_id) for a in result.assignments if a.device_id == device_id(number)]
            exchange = PrototypeExchange(manifest, label_map, replace(work, assignments=tuple(mine)), context)
            exchange.apply_result(adopt=True)
            after.append(exchange.label_map)
        return _Round(after, result.public_set, self._heads.centres(result.prototypes, self._seed))

    def _fit(
        self, number: int, label_map: LabelMap, takes: Mapping[str, Floats], came: _Round, *, again: bool = False
    ) -> Listener:
        """Fit a head as teaching does; ``again``: with other random numbers."""
        own = self._own(number).weights if came.public_set is not None and takes else None
        seed = 1000 * (2 * self._seed + again) + number
        return self._heads.fit(label_map, takes, seed, came.public_set, came.centres, own)

    def _judge(self, number: int, listener: Listener, kept_own: bool) -> Judged:
        mine, strangers = self._dealt.held_out[number], self._dealt.strangers
        lacking = ~np.isin(self._words.words[strangers], self._words.words[self._dealt.devices[number]])
        of_strangers = self._right(listener, strangers)
        return Judged(self._right(listener, mine), of_strangers, of_strangers[lacking], kept_own)

    def _right(self, listener: Listener, rows: Ints) -> Bools:
        """Return which clips are recognised as their word, whatever the device calls it, bool [rows]."""
        label_map = listener.label_map
        self._model.set_weights(listener.weights)
        x = self._model.normalise(self._words.embeddings[rows, 0][:, None])
        best = self._model.predict(x, label_map.listening_mask).argmax(axis=1)
        said = [self._meant.get(str(slot.class_id), slot.name) for slot in label_map.slots]
        heard = np.array([*said, *[""] * (label_map.capacity - len(said))])[best]
        return np.asarray(heard == self._words.words[rows])
