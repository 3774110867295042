"""What devices uploaded leaves the disk when its round is over; results stay."""

import pytest

from aggregator_server.rounds.lifecycle import cancel_round
from aggregator_server.rounds.replies import describe_round
from aggregator_server.rounds.retention import remove_left_uploads
from tests.support.aggregator_process import SharingDevice
from tests.support.core_fleet import CoreFleet, devices


def on_disk(fleet):
    return set(fleet.store.blobs.digests())


@pytest.mark.parametrize("strategy", ["zero_shot", "fedopt"])
def test_rounds_leave_their_results_and_nothing_else(tmp_path, strategy):
    fleet = CoreFleet(tmp_path, devices(kind=SharingDevice) if strategy == "fedopt" else devices())
    model = fleet.publish_model()
    kept = {fleet.public_set.sha256, model.sha256}
    for now in (100.0, 200.0):
        shown = describe_round(fleet.store, fleet.run_round(now, strategy=strategy))
        kept |= {shown.result_public_set, shown.result_consensus, shown.result_weights} - {None}
    assert kept <= on_disk(fleet)
    assert len(on_disk(fleet) - kept) == (2 if strategy == "fedopt" else 0)  # each round's moments of Adam


def test_uploads_stay_while_the_round_is_open_and_go_when_it_fails_or_is_cancelled(fleet):
    before = on_disk(fleet)
    for end in (lambda round_id: fleet.advance(1000.0), lambda round_id: cancel_round(fleet.store, round_id, 103.0)):
        round_id = fleet.open(deadline_s=60, quorum=1.0)
        receipt = fleet.upload(fleet.devices[0])
        assert on_disk(fleet) == before | {receipt.sha256}
        remove_left_uploads(fleet.store)
        assert receipt.sha256 in on_disk(fleet)
        end(round_id)
        assert on_disk(fleet) == before
        assert describe_round(fleet.store, round_id).participants[0].upload == receipt.sha256
