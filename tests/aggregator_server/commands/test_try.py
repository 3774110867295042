"""`auricle-aggregator try`: a server, devices and rounds with one command; Ctrl-C ends them all."""

import re
import signal
import subprocess
import sys

import httpx
import pytest

from aggregator_server.cli import parser
from edge_client.storage.device_state import DeviceState
from tests.support.commands import command, failed
from tests.support.edge_process import wait_for


@pytest.mark.slow
@pytest.mark.journey
def test_a_fleet_learns_by_itself_and_ends_with_the_command(tmp_path):
    text, folder = tmp_path / "text", tmp_path / "tried"
    line = [sys.executable, "-m", "aggregator_server.cli", "try", "--devices", "2", "--folder", folder, "--no-browser"]
    with text.open("w") as said:
        process = subprocess.Popen(line, stdout=said, stderr=said)
    try:
        # The sound that both know, and nobody else has, is found and named by a number: their words stay with them.
        found = "knows bark, doorbell, knock, telephone, sound-4"
        wait_for(lambda: found in text.read_text() or process.poll(), 600, "a round with the new sound")
        named = "sound-4, which nobody had named, is the kettle from now on"
        wait_for(lambda: named in text.read_text() or process.poll(), 600, "its name")
        lines = text.read_text().splitlines()
        assert "kitchen, hall" in lines[0]
        url, token = re.search(r"(http://127\.0\.0\.1:\d+)/#token=(aur_admin_\S+)", lines[1]).groups()
        assert "auricle-aggregator new --from" in lines[2]
        assert "round 1, prototypes: " in lines[4]
        devices = httpx.get(f"{url}/v1/devices", headers={"Authorization": f"Bearer {token}"}, trust_env=False).json()
        assert {device["name"] for device in devices} == {"kitchen", "hall"}
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(120)
    with pytest.raises(httpx.ConnectError):
        httpx.get(url, trust_env=False)
    assert not any(DeviceState(folder / f"{name}.device" / "state").locked("daemon") for name in ("kitchen", "hall"))


def test_what_cannot_be_tried_is_said(tmp_path, capsys):
    (tmp_path / "mine").touch()
    failed(command("try", "--folder", tmp_path), str(tmp_path), "is not empty")
    for number in ("1", "11", "x"):
        with pytest.raises(SystemExit):
            parser().parse_args(["try", "--devices", number])
        assert f"must be from 2 to 10, not {number}" in capsys.readouterr().err
