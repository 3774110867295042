"""An entropy of labels that is no entropy is refused, and one that is stored already breaks no plan."""

import json

from sqlalchemy import update

from aggregator_server.store.tables import DeviceRow
from aggregator_server.strategies.fedkws_ui import adaptive_local_training
from aggregator_server.strategies.registry import complete, known_settings
from aggregator_server.strategies.strategy import DeviceStatistics
from fleet_protocol.messages import Choice, to_json
from tests.support.aggregator_process import FakeDevice, Fleet, SharingDevice, tiny_bundle
from tests.support.core_fleet import CoreFleet
from tests.support.hostile_upload import altered

HOSTILE = [float("-inf"), float("inf"), float("nan"), -1.0, 20.1, 1e308]
DEVICES = [SharingDevice(1, ("c0", "c1")), SharingDevice(2, ("c1", "c2"))]


def test_such_an_upload_is_refused_by_every_strategy_and_the_field_is_named(start_aggregator):
    fleet = Fleet(start_aggregator(), DEVICES).ready(tiny_bundle())
    for strategy, kind in (("zero_shot", FakeDevice), ("fedavg", SharingDevice)):
        round_id = fleet.open_round(strategy=strategy)
        work = fleet.work(fleet.devices[0])
        for value in HOSTILE:
            body = altered(kind(1, ("c0", "c1")), work, fleet.samples, label_entropy=value)
            refused = fleet.upload(fleet.devices[0], work, body)
            assert refused.status_code == 422
            assert refused.json()["error"]["code"] == "malformed_update"
            assert "label_entropy" in refused.json()["error"]["message"]
        fleet.admin.delete(f"/v1/rounds/{round_id}").raise_for_status()


def test_what_is_stored_already_leaves_the_plan_within_its_ranges(tmp_path):
    fleet = CoreFleet(tmp_path, DEVICES)
    fleet.publish_model()
    with fleet.store.writing() as session:
        session.execute(update(DeviceRow).values(clips=5, label_entropy=0.5))
        of_first = DeviceRow.device_id == DEVICES[0].device_id
        session.execute(update(DeviceRow).where(of_first).values(label_entropy=float("-inf")))
    fleet.open(strategy="fedkws_ui")
    plan = to_json(fleet.work(DEVICES[1]).plan)
    fleet.store.close()
    assert json.loads(json.dumps(plan, allow_nan=False)) == plan
    assert 0 < plan["local"]["settings"]["step_factor"] <= 1e6
    assert complete("local", Choice(**plan["local"])).settings == plan["local"]["settings"]  # as a device checks it


def test_reports_of_next_to_nothing_leave_the_step_factor_within_its_range():
    local = complete("local", Choice("fedkws_ui"))
    reported = tuple(DeviceStatistics(f"{number:032x}", 1, 1e-300) for number in range(3))
    largest = known_settings("local")["fedkws_ui"]["step_factor"].high
    assert adaptive_local_training(local, reported, 10).settings["step_factor"] == largest
