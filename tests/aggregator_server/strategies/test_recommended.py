"""A round for which no strategy is named follows the one that serves the fleet's users best."""

import numpy as np
import pytest

from aggregator_server.fleet.device_changes import change_devices
from aggregator_server.rounds.lifecycle import cancel_round
from aggregator_server.rounds.views.replies import describe_round
from aggregator_server.schemas import RoundRequest
from aggregator_server.strategies.recommended import FleetKind, recommended
from fleet_protocol.messages import Choice
from tests.support.aggregator_process import FakeDevice, SharingDevice
from tests.support.core_fleet import CoreFleet, devices
from tests.support.embedded_words import SETTINGS, embedded_public_set

CEPSTRA = FleetKind(embeddings=False, shares_network=True)


@pytest.mark.parametrize(
    ("fleet", "expected"),
    [
        (FleetKind(embeddings=True, shares_network=False), "prototypes"),
        (CEPSTRA, "fedavg"),
        (FleetKind(embeddings=False, shares_network=False), "zero_shot"),
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
    theirs = Choice("zero_shot", {"epochs": 3})
    assert recommended(RoundRequest(others=theirs), CEPSTRA).others is theirs


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


def test_weights_are_shared_where_a_device_has_the_model_and_one_that_was_revoked_does_not_count(tmp_path):
    fleet = CoreFleet(tmp_path, [FakeDevice(9, ("c0", "c1"))])
    fleet.publish_model()
    own = SharingDevice(1, ("c0", "c1"))
    fleet.enrol(own)
    mixed = opened(fleet)
    assert (mixed.summary.strategy, mixed.plan.aggregation.name) == ("fedavg", "screened_mean")
    assert mixed.plan.personalisation.name == "local"
    assert (mixed.plan.others.strategy, mixed.plan.others.local.settings["labels"]) == ("zero_shot", True)
    assert [one.strategy for one in mixed.participants] == ["fedavg", "zero_shot"]
    cancel_round(fleet.store, mixed.summary.round_id, 102.0)
    change_devices(fleet.store, [own.device_id], "revoke", 103.0)
    assert opened(fleet).summary.strategy == "zero_shot"
