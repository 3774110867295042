"""What a plan can name, and the strategy of a request that names none."""

import math

import numpy as np
import pytest

from aggregator_server.errors import RefusedError
from aggregator_server.fleet.device_changes import change_devices
from aggregator_server.rounds.lifecycle import cancel_round
from aggregator_server.rounds.replies import describe_round
from aggregator_server.schemas import RoundRequest
from aggregator_server.strategies.plans import FleetKind, complete, known_settings, make_plan, recommended
from fleet_protocol.errors import PlanError
from fleet_protocol.messages.rest import Choice
from tests.support.aggregator_process import FakeDevice, SharingDevice
from tests.support.core_fleet import CoreFleet, devices
from tests.support.embedded_words import PrototypeDevice, embedded_public_set
from tests.support.round_inputs import BUNDLE

PARTS = ("local", "aggregation", "selection", "personalisation")
CASES = [(part, name) for part in PARTS for name in known_settings(part)]


@pytest.mark.parametrize(("part", "name"), CASES)
def test_defaults_fill_every_setting_and_are_themselves_allowed(part, name):
    full = complete(part, Choice(name))
    assert full.settings == {key: setting.default for key, setting in known_settings(part)[name].items()}
    assert complete(part, full) == full


@pytest.mark.parametrize(
    ("part", "choice", "words"),
    [
        ("local", Choice("zero-shot"), ["'zero-shot'", "zero_shot"]),
        ("local", Choice("zero_shot", {"epoch": 3}), ["'epoch'", "epochs", "distill_learning_rate"]),
        ("local", Choice("zero_shot", {"epochs": 2.5}), ["'epochs'", "int", "2.5"]),
        ("local", Choice("zero_shot", {"epochs": True}), ["'epochs'", "int", "True"]),
        ("local", Choice("zero_shot", {"epochs": 0}), ["'epochs'", "1", "10000", "not 0"]),
        ("local", Choice("zero_shot", {"learning_rate": 10**400}), ["'learning_rate'"]),
        ("aggregation", Choice("label_wise", {"normalise": 1}), ["'normalise'", "bool", "1"]),
        ("aggregation", Choice("mean"), ["'mean'", "krum", "label_wise", "lpa", "median", "weighted_mean"]),
        ("aggregation", Choice("lpa", {"v": 0.1}), ["'v'", "v_l", "v_h", "clip_norm", "server_optimiser"]),
        ("aggregation", Choice("lpa", {"v_h": 0.5}), ["'v_h'", "0.49", "0.5"]),
        ("aggregation", Choice("median", {"server_optimiser": "sgd"}), ["none, adam, yogi, adagrad", "'sgd'"]),
        ("selection", Choice("all", {"share": 0.5}), ["'share'", "seen_within_s"]),
        ("selection", Choice("most"), ["'most'", "all, dynamic, size_proportional, uniform"]),
        ("selection", Choice("uniform", {"fraction": 1.5}), ["'fraction'", "0", "1", "1.5"]),
        ("personalisation", Choice("none", {"epochs": 1}), ["'epochs'", "none at all"]),
    ],
)
def test_what_is_refused_is_named_with_what_is_allowed(part, choice, words):
    with pytest.raises(PlanError) as refused:
        complete(part, choice)
    assert all(word in str(refused.value) for word in words)


CEPSTRA = FleetKind(embeddings=False, shares_network=True)


def test_a_strategy_that_is_named_stays_and_so_does_a_rule():
    named = RoundRequest("zero_shot")
    assert recommended(named, CEPSTRA) is named
    assert recommended(RoundRequest(), CEPSTRA).aggregation == Choice("screened_mean")
    chosen = Choice("median")
    assert recommended(RoundRequest(aggregation=chosen), CEPSTRA).aggregation is chosen


def opened(fleet, **request):
    return describe_round(fleet.store, fleet.open(strategy="recommended", **request))


def test_a_fleet_gets_what_it_can_run(tmp_path):
    scores = opened(CoreFleet(tmp_path / "scores"))
    assert (scores.summary.strategy, scores.plan.local.name) == ("zero_shot", "zero_shot")
    public_set = embedded_public_set(np.random.default_rng(7))
    words = CoreFleet(tmp_path / "words", devices(3, PrototypeDevice), public=public_set)
    assert opened(words).summary.strategy == "prototypes"


def test_weights_are_shared_where_all_devices_have_the_model_and_one_that_was_revoked_does_not_count(tmp_path):
    class Renamed(FakeDevice):
        """The shared model under another name."""

        def enrolment(self, **changes):
            return super().enrolment(network=BUNDLE.manifest.network)

    class Rebuilt(SharingDevice):
        """The same architecture with another capacity."""

        def enrolment(self, **changes):
            return super().enrolment(network="f" * 64)

    other = Rebuilt(9, ("c0", "c1"))
    fleet = CoreFleet(tmp_path, [other])
    fleet.publish_model()
    for device in (SharingDevice(1, ("c0", "c1")), Renamed(2, ("c0", "c1"))):
        fleet.enrol(device)
    mixed = opened(fleet)
    assert mixed.summary.strategy == "zero_shot"
    cancel_round(fleet.store, mixed.summary.round_id, 102.0)
    change_devices(fleet.store, [other.device_id], "revoke", 103.0)
    alike = opened(fleet)
    assert (alike.summary.strategy, alike.plan.aggregation.name) == ("fedavg", "screened_mean")
    assert alike.plan.personalisation.name == "local"


@pytest.mark.parametrize(
    ("request_", "code", "words"),
    [
        (RoundRequest("zeroshot"), "unknown_strategy", ["'zeroshot'", "zero_shot"]),
        (RoundRequest("zero_shot", settings={"epoch": 1}), "invalid_plan", ["'epoch'", "epochs"]),
        (RoundRequest("zero_shot", aggregation={"normalize": True}), "invalid_plan", ["normalise"]),
        (RoundRequest("zero_shot", deadline_s=0), "invalid_plan", ["deadline_s", "not 0"]),
        (RoundRequest("zero_shot", deadline_s=math.nan), "invalid_plan", ["deadline_s", "nan"]),
        (RoundRequest("zero_shot", quorum=1.5), "invalid_plan", ["quorum", "1.5"]),
        (RoundRequest("zero_shot", seed=-1), "invalid_plan", ["seed", "-1"]),
        (RoundRequest("zero_shot", new_classes=0), "invalid_plan", ["new_classes", "0"]),
        (RoundRequest("fedavg", aggregation={"name": "mode"}), "invalid_plan", ["'mode'", "krum, lpa, median"]),
        (RoundRequest("fedavg", aggregation={"trim": 0.1}), "invalid_plan", ["'trim'", "by_size"]),
        (RoundRequest("fedmlac", settings={"own_share": 2.0}), "invalid_plan", ["'own_share'", "from 0 to 1"]),
        (RoundRequest("fedkws_ui", settings={"epochs": 3}), "invalid_plan", ["'epochs'", "steps"]),
    ],
)
def test_a_plan_that_cannot_be_followed_is_refused_with_what_can(request_, code, words):
    with pytest.raises(RefusedError) as refused:
        make_plan(request_)
    assert refused.value.code == code
    assert all(word in str(refused.value) for word in words), refused.value
