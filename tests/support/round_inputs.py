"""The inputs of a round's aggregation, of fake devices' uploads, without a server."""

import numpy as np

from aggregator_server.aggregation.contract import Contribution, RoundInputs, SharedModel
from aggregator_server.schemas import RoundRequest
from aggregator_server.strategies.plans import make_plan
from fleet_protocol.bundle.bundle_file import unpack_bundle
from tests.support.aggregator_process import FakeDevice, public_set, tiny_bundle

WORK = {"round_id": 3, "public_set": "0" * 64}
BUNDLE = unpack_bundle(tiny_bundle(), "a bundle")
MODEL = SharedModel(BUNDLE.manifest, BUNDLE.weights, {})
PUBLIC = public_set()


def contribution(device: FakeDevice, **changes) -> Contribution:
    return Contribution(device.update(WORK, **changes), lambda: device.arrays(WORK, 24))


def inputs(request: RoundRequest, uploads, **changes) -> RoundInputs:
    """Return the inputs of a round without a consensus; ``uploads`` are devices, or what they contribute."""
    given = tuple(one if isinstance(one, Contribution) else contribution(one) for one in uploads)
    fields = {"round_id": 3, "plan": make_plan(request), "contributions": given, "model": MODEL}
    fields |= {"public_set": PUBLIC, "consensus": np.zeros((24, 4), np.float32), "has_consensus": False}
    return RoundInputs(**(fields | changes))
