"""The inputs of a round's result: everything that a snapshot names, read from the store by one object."""

import dataclasses
import logging
from collections.abc import Sequence
from functools import lru_cache, partial
from sys import intern
from typing import Any

import numpy as np

from aggregator_server.aggregation.contract import Contribution, RoundInputs, SharedModel
from aggregator_server.aggregation.updates import in_blocks
from aggregator_server.errors import AggregationError, BlobError
from aggregator_server.rounds.snapshot import RoundSnapshot
from aggregator_server.store.blobs import BlobStore
from aggregator_server.strategies.registry import strategy
from fleet_protocol.bundle import unpack_bundle
from fleet_protocol.messages import ClassReport, RoundPlan, Update, parse
from fleet_protocol.public_set import PublicSet, unpack_consensus
from fleet_protocol.tensors import Arrays, unpack, view

_log = logging.getLogger(__name__)
_UPLOADS_OF_A_TASK = 256  # that is read
_LOOKED_AT = tuple(item.name for item in dataclasses.fields(Update) if item.name != "metrics")


class StoredRound:
    """A round as the store has it.

    Attributes:
        plan: Plan with every setting filled in.
        strategy: Strategy that the round follows.
        state_owner: Rule and server optimiser that the round's state belongs to: others cannot go on from it.
    """

    def __init__(self, blobs: BlobStore, snapshot: RoundSnapshot) -> None:
        """Read nothing yet."""
        self._blobs = blobs
        self._snapshot = snapshot
        self.plan = parse(RoundPlan, snapshot.plan)
        self.strategy = strategy(snapshot.strategy)
        rule = self.plan.aggregation
        self.state_owner = f"{rule.name} {rule.settings.get('server_optimiser', '')}"

    def inputs(self) -> RoundInputs:
        """Load the inputs of the round's aggregation.

        Raises:
            AggregationError: uploads are damaged, and too few are not.
            BlobError: another blob is missing or damaged.
        """
        snapshot, uploads, state = self._snapshot, self._contributions(), self._state()
        public_set = PublicSet.unpack(self._blobs.read(snapshot.public_set))
        public_set = dataclasses.replace(public_set, classes=snapshot.classes)  # people may have renamed some
        if snapshot.consensus is None:
            consensus = np.zeros((len(public_set.labels), len(public_set.classes)), np.float32)
        else:
            consensus, _ = unpack_consensus(self._blobs.read(snapshot.consensus))
        return RoundInputs(
            round_id=snapshot.round_id,
            plan=self.plan,
            public_set=public_set,
            consensus=consensus,
            contributions=tuple(contribution for contribution, other in uploads if not other),
            new_classes=snapshot.new_classes,
            assigned={(device_id, slot): class_id for device_id, slot, class_id in snapshot.assigned},
            model=self._model(state),
            has_consensus=snapshot.consensus is not None,
            state=state,
            revoked=frozenset(snapshot.revoked),
            others=tuple(contribution for contribution, other in uploads if other),
            class_terms=snapshot.class_terms,
            scratch=self._blobs.folder,
        )

    def _contributions(self) -> Sequence[tuple[Contribution, bool]]:
        """Return the uploads that are neither missing nor damaged, and whether each is by the plan's part for others.

        Several are read at the same time. Of each the document alone stays in memory.
        """
        uploads = self._snapshot.uploads
        found: list[Contribution | BlobError] = [BlobError("not read yet")] * len(uploads)

        def read(part: slice) -> None:
            for place in range(part.start, part.stop):
                try:
                    found[place] = read_contribution(self._blobs, uploads[place][1])
                except BlobError as error:
                    found[place] = error

        if uploads:
            in_blocks(read, len(uploads), _UPLOADS_OF_A_TASK)
        whole, contributions, damaged = [], [], []
        for upload, contribution in zip(uploads, found, strict=True):
            if isinstance(contribution, Contribution):
                whole.append(upload)
                contributions.append((contribution, upload[2]))
            else:
                _log.error("round %d goes on without device %s: %s", self._snapshot.round_id, upload[0], contribution)
                damaged.append(upload[0])
        reason = dataclasses.replace(self._snapshot, uploads=tuple(whole)).shortfall() if whole else "there are none"
        if damaged and reason is not None:
            raise AggregationError(
                f"the uploads of {', '.join(damaged)} are damaged on this server's disk, and the others do not "
                f"suffice: {reason}; open the round again"
            )
        return contributions

    def _model(self, state: Arrays) -> SharedModel | None:
        model, weights = self._snapshot.model, self._snapshot.weights
        if model is None:
            return None
        bundle = unpack_bundle(self._blobs.read(model), f"model {model}")
        return SharedModel(
            bundle.manifest, bundle.weights if weights is None else unpack(self._blobs.read(weights))[0], state
        )

    def _state(self) -> Arrays:
        if self._snapshot.server_state is None:
            return {}
        kept, document = unpack(self._blobs.read(self._snapshot.server_state))
        return kept if document["of"] == self.state_owner else {}


def read_contribution(blobs: BlobStore, upload: str) -> Contribution:
    """Return an upload whose bytes are what they were when it was checked.

    Raises:
        BlobError: it is missing or damaged.
    """
    _, document = view(blobs.read(upload))
    return Contribution(_as_update(document), partial(_read_arrays, blobs, upload))


def _as_update(document: dict[str, Any]) -> Update:
    """Return an upload's document, which was parsed when it came in, without what no aggregation looks at.

    Texts that many devices send alike are in memory once: a round may have a hundred thousand documents.
    """
    values = {name: document[name] for name in _LOOKED_AT if name in document}
    values |= {name: intern(values[name]) for name in ("features", "public_set")}
    values |= {name: _class_ids(tuple(values[name])) for name in ("classes", "known") if name in values}
    values["reports"] = tuple(parse(ClassReport, report) for report in values.get("reports", ()))
    return Update(**values)


@lru_cache(maxsize=64)
def _class_ids(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the same tuple for equal names."""
    return tuple(map(intern, names))


def _read_arrays(blobs: BlobStore, upload: str) -> Arrays:
    return view(blobs.read(upload))[0]
