"""A private round with noise over HTTP, and what its page says of it."""

from tests.support.dashboard_visitor import Visitor
from tests.support.noisy_device import NoisyDevice, noisy_public_set
from tests.support.private_fleet import PrivateFleet


class NoisyFleet(PrivateFleet):
    def publish(self, **_):
        return self.admin.put("/v1/public-set", content=noisy_public_set().pack())


def test_the_page_of_a_round_with_noise_says_what_it_can_tell_of_a_device(start_aggregator):
    fleet = NoisyFleet(start_aggregator("noise"), [NoisyDevice(n, ("c0", "c1")) for n in range(1, 7)]).ready()
    round_id = fleet.open_round(strategy="prototypes", private={"groups": 6, "epsilon": 60.0})
    for _, answer in fleet.answers(round_id):
        answer.raise_for_status()
    detail = fleet.round(round_id)
    assert detail["summary"]["state"] == "done", detail["summary"]["reason"]
    assert round(detail["private"]["epsilon"], 6) == 60
    assert detail["plan"]["private"]["noise"] > 0
    visitor = Visitor(fleet.aggregator)
    visitor.sign_in()
    assert "with noise: epsilon 60.00 at delta 1e-5 for each device" in visitor.get(f"/rounds/{round_id}").text
