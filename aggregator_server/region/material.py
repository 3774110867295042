"""What an upper server's work names, fetched and checked: its public set, its model, and the weights to start from.

The upper server is trusted with the models of the region's devices, and yet its words are bounded and checked as those
of a device are: nothing of it is in a row before.
"""

from dataclasses import dataclass

from aggregator_server.aggregation.plausible import check_weights
from aggregator_server.errors import CannotPassOnError
from aggregator_server.fleet import public_sets, shared_models
from aggregator_server.limits import UPDATE
from aggregator_server.names import check_name
from aggregator_server.rounds.plan import make_plan
from aggregator_server.schemas import RoundRequest
from aggregator_server.store import Store
from aggregator_server.store.blobs import BlobStore
from aggregator_server.strategies.registry import personalisations, strategies
from aggregator_server.strategies.strategy import Strategy, unchanged
from fleet_protocol.bundle import Manifest
from fleet_protocol.client.server_client import ServerClient
from fleet_protocol.messages import CONTINUOUS, Choice, RoundPlan, Work
from fleet_protocol.public_set import PublicSet
from fleet_protocol.tensors import require, view


@dataclass(frozen=True)
class Material:
    """What a region needs for work, checked; its blobs are stored, and no row names them yet.

    Attributes:
        strategy: Name of the strategy that the region's devices follow.
        model: Digest of the model's bundle.
    """

    work: Work
    strategy: str
    public_set: PublicSet
    model: str
    manifest: Manifest


def strategy_of(work: Work) -> Strategy:
    """Return the strategy of work that a region can pass on.

    Raises:
        CannotPassOnError: it cannot; says why.
    """
    name = work.plan.local.name
    found = strategies().get(name)
    if found is None or not found.shares_model or found.prepare is not unchanged:
        able = ", ".join(sorted(_able()))
        raise CannotPassOnError(f"a region passes on rounds with the local method {able}, not with {name!r}")
    if work.plan.rounds == CONTINUOUS:
        raise CannotPassOnError("a region passes on no continuous rounds: it has one upload of many")
    if work.model is None:
        raise CannotPassOnError(
            "the upper fleet asks this region for what devices of other networks do; it passes on weights alone"
        )
    personalisation = personalisations().get(work.plan.personalisation.name)
    if personalisation is None or personalisation.groups is not None:
        raise CannotPassOnError(
            f"a region passes on no rounds with the personalisation {work.plan.personalisation.name!r}: its groups "
            "are of the upper fleet's devices"
        )
    return found


def _able() -> list[str]:
    return [name for name, one in strategies().items() if one.shares_model and one.prepare is unchanged]


def fetch(client: ServerClient, store: Store, work: Work) -> None:
    """Store every blob that work names and this fleet does not have.

    Raises:
        LinkError: the upper server does not answer, says no, or sends more than is taken.
    """
    for sha256, largest in sorted(client.bounds.blobs(work).items()):
        fetch_blob(client, store.blobs, sha256, largest)


def fetch_blob(client: ServerClient, blobs: BlobStore, sha256: str, largest: int) -> None:
    """Store one blob, unless it is there. Raises LinkError: as :func:`fetch`."""
    if not blobs.exists(sha256):
        with blobs.receive() as incoming:
            client.read_blob(sha256, incoming.write, largest)
            incoming.keep()


def read_material(blobs: BlobStore, work: Work) -> Material:
    """Check what work names, once its blobs are stored.

    Raises:
        CannotPassOnError: a region cannot pass it on.
        AggregatorError, ProtocolError: something in it cannot be used.
    """
    strategy = strategy_of(work)
    assert work.model is not None
    for info in work.classes:
        check_name(info.class_id, "a class's identifier", length=64)
        check_name(info.name, "a class's name")
    public_set = public_sets.read(blobs.read(work.public_set))
    class_ids = tuple(info.class_id for info in work.classes)
    if public_set.class_ids != class_ids:
        raise CannotPassOnError(
            f"the upper fleet's work is about the classes {', '.join(class_ids)[:300]}, and its public set about "
            f"{', '.join(public_set.class_ids)[:300]}"
        )
    manifest = shared_models.read(blobs.read(work.model))
    public_set.settings.require_same(manifest.feature_settings, "the upper public set", "the upper model")
    if len(class_ids) > manifest.slots:
        raise CannotPassOnError(f"the upper fleet has {len(class_ids)} classes, and its model {manifest.slots} slots")
    if work.weights is not None:
        arrays, _ = view(blobs.read(work.weights), UPDATE)
        if set(arrays) != set(manifest.weight_shapes):
            raise CannotPassOnError("the upper fleet's weights are not those of its model")
        for name, shape in manifest.weight_shapes.items():
            check_weights(name, require(arrays, name, tuple(shape)))
    return Material(work, strategy.name, public_set, work.model, manifest)


def plan_of(material: Material, *, rule: Choice | None, personalised: bool, deadline_share: float = 1.0) -> RoundPlan:
    """Return the plan that the region's devices get.

    Args:
        rule: the region's own rule of aggregation; None: the strategy's.
        personalised: whether devices make models of their own of the result, as the upper plan says.
        deadline_share: how much of the time the region takes.

    Raises:
        InvalidPlanError: the upper plan holds a setting that no plan has, or the rule is none of the strategy's.
    """
    plan = material.work.plan
    return make_plan(
        RoundRequest(
            material.strategy,
            settings=plan.local.settings,
            aggregation=rule or {},
            deadline_s=plan.deadline_s * deadline_share,
            quorum=plan.quorum,
            seed=plan.seed,
            selection=Choice("all"),
            personalisation=plan.personalisation if personalised else Choice("none"),
        )
    )
