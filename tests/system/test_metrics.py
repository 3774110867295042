"""Metrics of a real server, and whether dashboard, alerts and document name those that there are."""

import json
import re
import time

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.support.aggregator_process import ADMIN, Fleet
from tests.support.checkout import ROOT
from tests.support.commands import printed
from tests.support.core_fleet import devices
from tests.support.edge_process import wait_for

pytestmark = pytest.mark.slow


def read(text):
    """Samples by name; each is a dictionary from its labels, as a tuple of pairs, to its value."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


@pytest.fixture(scope="module")
def server(aggregator):
    """Metrics before, within and after a round of four devices."""
    fleet = Fleet(aggregator, devices())
    told = []

    def ask():
        answer = fleet.admin.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain")
        told.append(read(answer.text))

    ask()
    fleet.publish()
    fleet.enrol()
    round_id = fleet.open_round()
    for device in fleet.devices:
        fleet.upload(device, fleet.work(device)).raise_for_status()
        if device is fleet.devices[0]:
            ask()
    wait_for(lambda: fleet.round(round_id)["summary"]["state"] == "done", what="the end of the round")
    ask()
    return aggregator, told


def test_the_server_counts_devices_rounds_and_uploads(server):
    _, (before, within, after) = server
    assert before["auricle_devices"] == {(("state", name),): 0 for name in ("active", "waiting", "revoked")}
    assert before["auricle_open_round"] == {(): 0}
    assert "auricle_last_round_seconds" not in before
    assert within["auricle_devices"][(("state", "active"),)] == 4
    assert within["auricle_devices_present"] == {(): 4}
    assert (before["auricle_devices_outdated"], after["auricle_devices_outdated"]) == ({(): 0}, {(): 4})
    assert within["auricle_open_round"] == {(): 1}
    assert within["auricle_open_round_devices"] == {(("uploaded", "yes"),): 1, (("uploaded", "no"),): 3}
    assert after["auricle_open_round"] == {(): 0}
    assert after["auricle_last_round_uploads"] == {(): 4}
    assert after["auricle_last_round_seconds"][()] > 0
    assert after["auricle_rounds"][(("state", "done"),)] == 1
    assert after["auricle_audit_entries_total"][(("what", "device_enrolled"),)] == 4
    assert 0 < after["auricle_disk_free_bytes"][()] <= after["auricle_disk_bytes"][()]
    assert before["auricle_rounds"] == {(("state", state),): 0 for state in ("open", "done", "failed", "cancelled")}


def test_the_server_tells_when_it_was_last_backed_up(server, tmp_path):
    aggregator, (before, *_) = server
    assert before["auricle_last_backup_timestamp_seconds"] == {(): 0}
    began = time.time()
    printed("backup", tmp_path / "copies", "--keep", 2, "--data", aggregator.data)
    with aggregator.client(ADMIN) as person:
        told = read(person.get("/metrics").text)["auricle_last_backup_timestamp_seconds"][()]
    assert began - 2 < told < time.time() + 2


def test_dashboard_alerts_and_document_name_metrics_that_exist(server):
    there = set(server[1][2])
    dashboard = json.loads((ROOT / "docs/grafana/auricle.json").read_text())
    drawn = {
        name
        for panel in dashboard["panels"]
        for target in panel["targets"]
        for name in re.findall(r"auricle_\w+", target["expr"])
    }
    groups = yaml.safe_load((ROOT / "systemd/auricle.rules.yml").read_text())["groups"]
    watched = {name for group in groups for rule in group["rules"] for name in re.findall(r"auricle_\w+", rule["expr"])}
    assert drawn | watched <= there
    described = set(re.findall(r"`(auricle_\w+)", (ROOT / "docs/operating.md").read_text()))
    assert {name for name in there if not name.endswith("_created")} <= described
    assert drawn | watched <= described
