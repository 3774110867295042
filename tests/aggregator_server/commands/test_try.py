"""`auricle-aggregator try`: a server, devices and rounds with one command; Ctrl-C ends them all."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from aggregator_server.cli import parser
from edge_client.storage.device_state import DeviceState
from tests.support.commands import answer, command, failed
from tests.support.edge_process import wait_for
from tests.support.power_cut import descendants

PATIENT = {"timeout": 180, "trust_env": False}


@pytest.mark.slow
@pytest.mark.journey
def test_a_fleet_learns_by_itself_and_ends_with_the_command(tmp_path):
    text, folder, opened = tmp_path / "text", tmp_path / "tried", tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" > {opened}.part && mv {opened}.part {opened}\n')
    browser.chmod(0o755)
    line = [sys.executable, "-m", "aggregator_server.cli", "try", "--devices", "2", "--folder", folder]
    with text.open("w") as said:
        process = subprocess.Popen(line, stdout=said, stderr=said, env={**os.environ, "BROWSER": str(browser)})
    try:
        wait_for(lambda: opened.exists() or process.poll(), 600, "its browser")
        url = signed_in_once(opened.read_text().strip())
        assert "aur_" not in "\n".join(arguments_of(process.pid))
        # The sound that both know, and nobody else has, is found and named by a number: their words stay with them.
        found = "knows bark, doorbell, knock, telephone, sound-4"
        wait_for(lambda: found in text.read_text() or process.poll(), 600, "a round with the new sound")
        named = "sound-4, which nobody had named, is the kettle from now on"
        wait_for(lambda: named in text.read_text() or process.poll(), 600, "its name")
        lines = text.read_text().splitlines()
        assert "kitchen, hall" in lines[0]
        assert f"Its dashboard: {url}/sign-in/once#aur_once_" in lines[1]
        assert f"tokens link --data {folder / 'fleet'}" in lines[2]
        assert "auricle-aggregator new --from" in lines[3]
        assert "round 1, prototypes: " in lines[5]
        token = answer("tokens", "--data", folder / "fleet", token=None)["admin"]
        devices = httpx.get(f"{url}/v1/devices", headers={"Authorization": f"Bearer {token}"}, **PATIENT).json()
        assert {device["name"] for device in devices} == {"kitchen", "hall"}
        answer("classes", "rename", "kettle", "teapot", "--data", folder / "fleet", token=None)
        second = "round 2, prototypes: its result reached every device"  # with the name, at once
        wait_for(lambda: second in text.read_text() or process.poll(), 600, "another round")
        assert text.read_text().count("round 1, prototypes: its result") == 1
        assert "teapot" in {one["name"] for one in answer("classes", "--data", folder / "fleet", token=None)}
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(120)
    with pytest.raises(httpx.ConnectError):
        httpx.get(url, **PATIENT)
    assert not any(DeviceState(folder / f"{name}.device" / "state").locked("daemon") for name in ("kitchen", "hall"))


def signed_in_once(link):
    """Sign in by a link, twice, of which the first succeeds; return the server's address."""
    url, once = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/sign-in/once#(aur_once_\S+)", link).groups()
    assert [httpx.post(f"{url}/sign-in", data={"token": once}, **PATIENT).status_code for _ in "12"] == [303, 401]
    return url


def arguments_of(pid):
    """What everybody on the machine sees of a process, and of those that it started."""
    found = []
    for one in (pid, *descendants(pid)):
        with contextlib.suppress(OSError):  # it ended
            found.append(Path(f"/proc/{one}/cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


def test_what_cannot_be_tried_is_said(tmp_path, capsys):
    (tmp_path / "mine").touch()
    failed(command("try", "--folder", tmp_path), str(tmp_path), "is not empty")
    for number in ("1", "11", "x"):
        with pytest.raises(SystemExit):
            parser().parse_args(["try", "--devices", number])
        assert f"must be from 2 to 10, not {number}" in capsys.readouterr().err
