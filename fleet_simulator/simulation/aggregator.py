"""The aggregator's side of a federation, in memory: its plan, checks, aggregation and discovery, without a database."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from aggregator_server.aggregation.contract import (
    ClassTerms,
    Contribution,
    RoundInputs,
    RoundResult,
    SharedModel,
    UploadTerms,
)
from aggregator_server.aggregation.input_bounds import FeatureRange
from aggregator_server.errors import MalformedUpdateError
from aggregator_server.limits import CLASSES
from aggregator_server.strategies.plans import strategy
from aggregator_server.strategies.strategy import DeviceStatistics, Strategy
from fleet_protocol.bundle.bundle_file import Manifest
from fleet_protocol.messages.public_set import PublicSet, pack_consensus
from fleet_protocol.messages.rest import Choice, RoundPlan, Work, WorkKind
from fleet_protocol.numbers.arrays import Floats
from fleet_protocol.numbers.fleet_prototypes import FleetPrototypes
from fleet_protocol.numbers.tensors import Arrays, digest
from fleet_simulator.errors import SimulationError


@dataclass
class FleetState:
    """What an aggregator has in its database after a round."""

    public_set: PublicSet  # The newest version
    weights: Arrays = field(default_factory=dict)  # Weights of the shared model; empty: the fleet has none
    # Arrays that the aggregation keeps, such as a server optimiser's moments or every device's prototypes
    kept: Arrays = field(default_factory=dict)
    consensus: Floats | None = None  # Scores on the public set, float32 [samples, classes]; None before the first
    prototypes: FleetPrototypes | None = None  # The fleet's; None before the first
    # Class of every (device, slot) that was recognised
    assigned: dict[tuple[str, int], str] = field(default_factory=dict)

    def digests(self) -> dict[str, str | None]:
        """Return the names that the aggregator's blobs would have, as :class:`Work` has them."""
        consensus, prototypes = self.consensus, self.prototypes
        return {
            "public_set": digest(self.public_set.pack()),
            "consensus": None if consensus is None else digest(pack_consensus(consensus, self.public_set.class_ids)),
            "prototypes": None if prototypes is None else digest(prototypes.pack()),
        }


@dataclass(frozen=True)
class Uploads:
    """What the devices of a round sent."""

    sent: Sequence[Contribution]
    losses: Sequence[float] = ()  # Mean loss of every device's last pass; none where no device trained
    # Whether these are means of several devices' uploads, whose number of clips is their weight
    averaged: bool = False


class Aggregator:
    """One fleet's aggregator."""

    def __init__(
        self, name: str, plan: RoundPlan, state: FleetState, manifest: Manifest | None = None, *, attacked: bool = False
    ) -> None:
        """Prepare; ``attacked``: whether an upload may be refused, else a refusal means that the simulation errs."""
        self.strategy: Strategy = strategy(name)
        self.plan = plan
        self.state = state
        self._manifest = manifest if self.strategy.shares_model else None
        self._attacked = attacked
        self._named: tuple[tuple[object, ...], dict[str, Any]] = ((None,) * 3, {})

    def prepared(self, reported: Sequence[DeviceStatistics]) -> RoundPlan:
        """Return a round's plan, completed from what devices reported with uploads so far. Raises RefusedError."""
        local = self.strategy.prepare(self.plan.local, tuple(reported), len(self.state.public_set.classes))
        return replace(self.plan, local=local)

    def work(self, kind: WorkKind, round_id: int, plan: RoundPlan) -> Work:
        """Return what the devices of a round are asked for, but for assignments, which are each device's own."""
        state = self.state
        present = state.public_set, state.consensus, state.prototypes
        if any(one is not other for one, other in zip(self._named[0], present, strict=True)):
            self._named = present, state.digests()
        return Work(kind=kind, round_id=round_id, plan=plan, classes=state.public_set.classes, **self._named[1])

    def close(
        self, work: Work, uploads: Uploads, *, new_classes: int | None = None, revoked: Collection[str] = ()
    ) -> tuple[RoundResult, dict[str, dict[str, Any]]]:
        """End a round: check and combine its uploads, and take the result up.

        Of the devices in ``revoked`` no earlier upload counts. Returns the result; and by device why an upload did not
        count, as a round's details have it, empty where it was refused. Raises AggregatorError: the strategy refuses an
        honest fleet's upload, or cannot combine them; SimulationError: it refuses all, or made no weights of them.
        """
        state = self.state
        result, dropped = self.combined(
            work, uploads, state.weights, state.kept, new_classes=new_classes, revoked=frozenset(revoked)
        )
        state.public_set, state.consensus, state.kept = result.public_set, result.consensus, result.state
        state.weights = state.weights if result.weights is None else result.weights
        state.prototypes = result.prototypes or state.prototypes
        state.assigned |= {(item.device_id, item.slot): item.class_id for item in result.assignments}
        return result, dropped

    def combined(
        self,
        work: Work,
        uploads: Uploads,
        weights: Arrays,
        kept: Arrays,
        *,
        new_classes: int | None = None,
        revoked: frozenset[str] = frozenset(),
    ) -> tuple[RoundResult, dict[str, dict[str, Any]]]:
        """Check and combine uploads of devices that started from ``weights``; see :meth:`close`."""
        state, plan, manifest = self.state, work.plan, self._manifest
        if uploads.averaged:  # the blocks' sizes are their weights, and they are clipped already
            settings = plan.aggregation.settings | {"by_size": True, "clip_norm": 0.0}
            plan = replace(plan, aggregation=Choice(plan.aggregation.name, settings))
        public_set = state.public_set
        samples, recorded = len(public_set.labels), public_set.features[~public_set.synthetic]
        bounds = partial(FeatureRange.of, recorded) if samples else None
        terms = UploadTerms(work.public_set, samples, public_set.class_ids, public_set.settings, manifest, bounds)
        taken = self._accepted(terms, uploads.sent)
        if not taken:
            raise SimulationError(f"round {work.round_id}: the aggregator refuses the uploads of all devices")
        consensus = state.consensus
        if consensus is None:
            consensus = np.zeros((len(public_set.labels), len(public_set.classes)), np.float32)
        result = self.strategy.aggregate(
            RoundInputs(
                round_id=work.round_id,
                plan=plan,
                public_set=public_set,
                consensus=consensus,
                contributions=tuple(taken),
                new_classes=new_classes,
                assigned=state.assigned,
                model=None if manifest is None else SharedModel(manifest, weights, kept),
                has_consensus=state.consensus is not None,
                state=kept,
                revoked=revoked,
                class_terms=ClassTerms(max_classes=CLASSES if manifest is None else min(CLASSES, manifest.slots)),
            )
        )
        if manifest is not None and result.weights is None:
            raise SimulationError(
                f"round {work.round_id}: the strategy {self.strategy.name!r} made no weights of {len(taken)} uploads; "
                "its aggregate must return the shared model's new weights"
            )
        counted = {one.update.device_id for one in taken}
        sent = [one.update.device_id for one in uploads.sent]
        refused: dict[str, dict[str, Any]] = {device_id: {} for device_id in sent if device_id not in counted}
        return result, refused | (result.details.get("aggregation") or {}).get("screened", {})

    def _accepted(self, terms: UploadTerms, uploads: Sequence[Contribution]) -> list[Contribution]:
        """Return the uploads that the aggregator takes."""
        taken = []
        for upload in uploads:
            try:
                self.strategy.check(terms, upload.update, upload.read())
            except MalformedUpdateError:
                if not self._attacked:
                    raise
            else:
                taken.append(upload)
        return taken
