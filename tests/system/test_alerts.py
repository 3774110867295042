"""The alert rules: what Prometheus understands, and which states of a fleet set them off."""

import re
import shutil
import subprocess

import pytest
import yaml

from aggregator_server.limits import LEAST_FREE_BYTES, LEAST_FREE_SHARE, REFUSALS_NOTED_OF_ADDRESS
from tests.support.checkout import ROOT

RULES = ROOT / "systemd/auricle.rules.yml"
SERVER = 'instance="server:8470", job="auricle-aggregator"'
# Of each alert: what a minute-by-minute scrape shows, and when it fires. Of the others of the list none fires then.
FIRES = {
    "AuricleAggregatorDown": ({f"up{{{SERVER}}}": "1 0x20"}, "10m"),
    "AuricleAggregatorDiskFull": ({f"auricle_disk_free_bytes{{{SERVER}}}": "4x20"}, "10m"),
    "AuricleAggregatorDiskFilling": ({f"auricle_disk_free_bytes{{{SERVER}}}": "9x90"}, "70m"),
    "AuricleBackupOld": ({f"auricle_last_backup_timestamp_seconds{{{SERVER}}}": "0x3000"}, "50h"),
    "AuricleDevicesAway": ({f"auricle_devices_present{{{SERVER}}}": "4x90"}, "70m"),
    "AuricleDeviceWaiting": ({f'auricle_devices{{state="waiting", {SERVER}}}': "1x1500"}, "1450m"),
    "AuricleDeviceQuarantined": ({f"auricle_devices_quarantined{{{SERVER}}}": "2x5"}, "3m"),
    "AuricleRoundFailed": ({f'auricle_rounds{{state="failed", {SERVER}}}': "0x10 1x10"}, "15m"),
    "AuricleRoundLasts": ({f"auricle_open_round{{{SERVER}}}": "3x1500"}, "1450m"),
    "AuricleWrongTokens": ({f'auricle_audit_entries_total{{what="authentication_failed", {SERVER}}}': "0+1x20"}, "16m"),
}
# A fleet that is well. What an alert's own series say replaces these.
WELL = {
    f"up{{{SERVER}}}": "1x3000",
    f"auricle_disk_free_bytes{{{SERVER}}}": "50x3000",
    f"auricle_disk_bytes{{{SERVER}}}": "100x3000",
    f"auricle_last_backup_timestamp_seconds{{{SERVER}}}": "0+60x3000",
    f'auricle_devices{{state="active", {SERVER}}}': "10x3000",
    f"auricle_devices_present{{{SERVER}}}": "9x3000",
    f'auricle_devices{{state="waiting", {SERVER}}}': "0x3000",
    f"auricle_devices_quarantined{{{SERVER}}}": "0x3000",
    f'auricle_rounds{{state="failed", {SERVER}}}': "2x3000",
    f"auricle_open_round{{{SERVER}}}": "0x700 4x60 0x2240",
    f'auricle_audit_entries_total{{what="authentication_failed", {SERVER}}}': "3x3000",
}


def play(folder, cases):
    """Have Prometheus play cases, (name of an alert, its time, series) each, in which no alert shall fire."""
    document = {
        "rule_files": [str(RULES)],
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in (WELL | series).items()],
                "alert_rule_test": [{"eval_time": at, "alertname": alert, "exp_alerts": []}],
            }
            for alert, at, series in cases
        ],
    }
    (folder / "cases.yml").write_text(yaml.safe_dump(document))
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")
    command = ["promtool", "test", "rules", folder / "cases.yml"]
    return subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)


def test_every_alert_is_played_and_has_the_servers_bound():
    found = {rule["alert"]: rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]}
    assert set(FIRES) == set(found)
    bound = f"clamp_max({LEAST_FREE_SHARE} * auricle_disk_bytes, {LEAST_FREE_BYTES:.0f})"
    assert found["AuricleAggregatorDiskFull"]["expr"].endswith(f"< {bound}")


def scraped(aggregator):
    """What a server's metrics say now, by name and labels."""
    with aggregator.client() as client:
        lines = client.get("/metrics").text.splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


def test_a_flood_of_wrong_tokens_from_one_address_fires_at_a_new_server(start_aggregator, tmp_path):
    aggregator = start_aggregator()
    name = 'auricle_audit_entries_total{what="authentication_failed"}'
    before = scraped(aggregator)[name]
    for number in range(REFUSALS_NOTED_OF_ADDRESS + 5):
        with aggregator.client(f"wrong {number}") as client:
            assert client.get("/v1/devices").status_code == 401
    after = scraped(aggregator)[name]
    assert (before, after) == (0, REFUSALS_NOTED_OF_ADDRESS)
    series = {f'auricle_audit_entries_total{{what="authentication_failed", {SERVER}}}': f"{before}x9 {after}x20"}
    done = play(tmp_path, [("AuricleWrongTokens", "16m", series)])
    assert "AuricleWrongTokens, time: 16m" in done.stdout, done.stdout


def test_what_the_alerts_look_at_is_there_from_a_server_s_first_day(start_aggregator):
    shown = scraped(start_aggregator())
    for rule in (rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]):
        for name in re.findall(r"auricle_\w+(?:\{[^}]*\})?", rule["expr"]):
            assert name in shown, rule["alert"]


def test_no_alert_fires_for_a_fleet_that_is_well(tmp_path):
    done = play(tmp_path, [(alert, at, {}) for alert, (_, at) in FIRES.items()])
    assert done.returncode == 0, done.stdout


def test_each_alert_fires_for_its_own_trouble(tmp_path):
    done = play(tmp_path, [(alert, at, series) for alert, (series, at) in FIRES.items()])
    fired = re.findall(r"alertname: (\w+), time: \w+,\s+exp:\[\],\s+got:\[\s+0:\s+Labels:", done.stdout)
    assert sorted(fired) == sorted(FIRES), done.stdout
