"""A round for which no strategy is named follows the one that serves the fleet's users best."""

import numpy as np
import pytest

from aggregator_server.fleet.devices import revoke
from aggregator_server.rounds.lifecycle import cancel_round
from aggregator_server.rounds.views import describe_round
from aggregator_server.schemas import RoundRequest
from aggregator_server.strategies.recommended import FleetKind, recommended
from fleet_protocol.messages import Choice
from tests.support.aggregator_process import FakeDevice
from tests.support.core_fleet import CoreFleet, devices
from tests.support.embedded_words import SETTINGS, embedded_public_set

CEPSTRA = FleetKind(embeddings=False, shared="cnn2", architectures={"cnn2"})


@pytest.mark.parametrize(
    ("fleet", "expected"),
    [
        (FleetKind(embeddings=True, shared=None, architectures={"linear", "hidden"}), "prototypes"),
        (CEPSTRA, "fedavg"),
        (FleetKind(embeddings=False, shared="cnn2", architectures={"cnn2", "cnn3"}), "zero_shot"),
        (FleetKind(embeddings=False, shared=None, architectures={"cnn2"}), "zero_shot"),
        (FleetKind(embeddings=False, shared="cnn2", architectures=set()), "zero_shot"),
    ],
)
def test_it_depends_on_the_front_end_and_on_the_devices_networks(fleet, expected):
    assert recommended(RoundRequest(seed=3), fleet).strategy == expected
    assert recommended(RoundRequest(seed=3), fleet).seed == 3


def test_a_strategy_that_is_named_stays_and_so_does_a_rule():
    named = RoundRequest("zero_shot")
    assert recommended(named, CEPSTRA) is named
    assert recommended(RoundRequest(), CEPSTRA).aggregation == Choice("screened_mean")
    chosen = Choice("median")
    assert recommended(RoundRequest(aggregation=chosen), CEPSTRA).aggregation is chosen


def opened(fleet, **request):
    return describe_round(fleet.store, fleet.open(strategy="recommended", **request))


class Embedded(FakeDevice):
    """A device with a pretrained front end."""

    def enrolment(self):
        return super().enrolment() | {"features": SETTINGS.to_json()}


def test_a_fleet_gets_what_it_can_run(tmp_path):
    scores = opened(CoreFleet(tmp_path / "scores"))
    assert (scores.summary.strategy, scores.plan.local.name) == ("zero_shot", "zero_shot")
    public_set = embedded_public_set(np.random.default_rng(7))
    words = CoreFleet(tmp_path / "words", devices(3, Embedded), public=public_set)
    assert opened(words).summary.strategy == "prototypes"


class Tiny(FakeDevice):
    """A device whose bundle is the shared model's."""

    def enrolment(self):
        return super().enrolment() | {"architecture": "tiny"}


def test_weights_are_shared_where_all_have_the_model_and_a_device_that_was_revoked_does_not_count(tmp_path):
    fleet = CoreFleet(tmp_path, devices(3, Tiny))
    fleet.publish_model()
    stray = FakeDevice(9, ("c0", "c1"))
    fleet.enrol(stray)
    first = fleet.open(strategy="recommended")
    assert describe_round(fleet.store, first).summary.strategy == "zero_shot"
    cancel_round(fleet.store, first, 102.0)
    revoke(fleet.store, stray.device_id, 103.0)
    round_ = opened(fleet)
    assert (round_.summary.strategy, round_.plan.aggregation.name) == ("fedavg", "screened_mean")
    assert round_.plan.personalisation.name == "local"
