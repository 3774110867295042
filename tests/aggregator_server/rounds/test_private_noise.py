"""Private rounds with noise through the core: what is found in it, what is lost, what is refused."""

import numpy as np
import pytest

from aggregator_server.rounds.replies import describe_round
from aggregator_server.schemas import PrivateRequest
from fleet_protocol.secure_sums.bounded_sums import directions_of
from tests.support.core_fleet import refusal
from tests.support.noisy_device import STATISTICS, NoisyDevice, noisy_public_set
from tests.support.private_fleet import PrivateCoreFleet, private_devices


def of_words(count: int) -> list[NoisyDevice]:
    """Devices with c0 and c1, and one of them with c2, too."""
    return [NoisyDevice(n, ("c0", "c1", "c2") if n == 1 else ("c0", "c1")) for n in range(1, count + 1)]


@pytest.fixture
def fleet_of(tmp_path):
    made = []

    def make(devices, public=None):
        made.append(PrivateCoreFleet(tmp_path, devices, public))
        return made[0]

    yield make
    for fleet in made:
        fleet.store.close()


@pytest.mark.parametrize(("devices", "groups", "uploading"), [(18, 18, 12), (36, 12, None)])
def test_what_most_devices_have_is_found_and_what_one_has_is_hidden(fleet_of, devices, groups, uploading):
    fleet = fleet_of(of_words(devices), noisy_public_set())
    round_id = fleet.open_private(groups=groups, epsilon=20.0)
    assert fleet.play(uploading=uploading) == round_id
    detail = describe_round(fleet.store, round_id)
    assert detail.summary.state == "done", detail.summary.reason
    assert detail.private.epsilon == pytest.approx(20.0)
    found = fleet.prototypes(detail.result_prototypes)
    assert found.class_ids == ("c0", "c1")
    plain = [directions_of(STATISTICS, STATISTICS.means[word][None])[0] for word in (0, 1)]
    cosines = directions_of(STATISTICS, found.means[:, 0]) @ np.transpose(plain)
    assert np.diagonal(cosines).min() > 0.5
    assert np.diagonal(cosines).min() > 0.3 + max(cosines[0, 1], cosines[1, 0])
    assert not detail.aggregation["screened"]


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"private": PrivateRequest(18, 0.05)}, "epsilon is from 0.1 to 100, not 0.05"),
        ({"private": PrivateRequest(18, float("nan"))}, "epsilon is from 0.1 to 100, not nan"),
        ({"private": PrivateRequest(18, 2.0)}, "with epsilon 2 the noise hides even a sound that all of 18 devices"),
        ({"private": PrivateRequest(4, 10.0)}, "in 4 groups have"),
        ({"aggregation": {"order": True}}, "cannot have order = True"),
        ({"strategy": "zero_shot"}, "what a device adds in a round of 'zero_shot' has no bound for noise"),
    ],
)
def test_noise_that_would_leave_nothing_or_hide_nothing_is_refused_with_the_reason(fleet_of, request_, said):
    fleet = fleet_of(of_words(18), noisy_public_set())
    with refusal("invalid_plan", said):
        fleet.open(**({"strategy": "prototypes", "private": PrivateRequest(18, 10.0)} | request_))


def test_a_front_end_that_does_not_come_with_auricle_is_refused(fleet_of):
    with refusal("invalid_plan", "needs the statistics of the front end's pretraining"):
        fleet_of(private_devices(18)).open_private(groups=18, epsilon=10.0)


def test_a_device_whose_numbers_no_noise_gives_spoils_its_group_alone_and_the_group_is_named(fleet_of):
    devices = of_words(48)
    fleet = fleet_of(devices, noisy_public_set())
    devices[5].directions = lambda: {0: (np.full(64, 1 / 8), 1)}
    own = devices[5].numbers
    devices[5].numbers = lambda work: own(work) + np.uint32(2**20)
    round_id = fleet.open_private(groups=12, epsilon=20.0)
    fleet.play()
    detail = describe_round(fleet.store, round_id)
    (spoilt,) = [group for group in detail.private.groups if "with any noise" in group.outcome]
    assert devices[5].device_id in spoilt.devices
    assert set(detail.aggregation["screened"]) == set(spoilt.devices)
    assert fleet.prototypes(detail.result_prototypes).class_ids == ("c0", "c1")
