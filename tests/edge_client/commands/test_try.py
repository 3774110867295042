"""`auricle-edge try`: one command, and a device hears, with its page in a browser; Ctrl-C ends it all."""

import os
import re
import signal
import subprocess
import sys
from contextlib import closing
from urllib.request import urlopen

import pytest

from edge_client.cli import main
from edge_client.daemon.status import read_status
from edge_client.storage.device_state import DeviceState
from tests.support.commands import OwnDesk
from tests.support.edge_process import wait_for


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A desk at which a browser only notes what it is to open, in the file ``opened``."""
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    with closing(OwnDesk(tmp_path)) as found:
        yield found


@pytest.mark.slow
@pytest.mark.journey
def test_a_device_hears_at_once_and_ends_with_the_command(desk, tmp_path):
    note, text = tmp_path / "opened", tmp_path / "said"
    process = desk.leave_running("auricle-edge try --folder tried", "said")
    wait_for(lambda: len(set(re.findall(r"heard (\w+)", text.read_text()))) == 4, what="each of the sounds")
    lines = text.read_text().splitlines()
    assert "doorbell, knock, bark, telephone" in lines[0]
    assert "offers a sound that it does not know yet: kettle" in lines[1]
    url = re.search(r"http://127\.0\.0\.1:\d+/", lines[2])[0]
    assert "auricle-edge init" in lines[3]
    assert lines[4] == ""
    assert wait_for(lambda: note.exists() and note.read_text().strip() == url, what="the browser")
    with urlopen(url) as page:
        assert b"doorbell" in page.read()
    process.send_signal(signal.SIGINT)
    assert process.wait(180) == 0
    state = DeviceState(tmp_path / "tried" / "state")
    assert not state.locked("daemon")
    with pytest.raises(OSError, match="refused"):
        urlopen(url)
    # It goes on in its folder; when its daemon ends, all of it does.
    process = desk.leave_running("auricle-edge try --folder tried --no-browser", "said")
    wait_for(lambda: "heard" in text.read_text(), what="a sound in the same folder")
    os.kill(wait_for(lambda: read_status(state).get("pid"), what="the daemon's status"), signal.SIGKILL)
    assert process.wait(180) == 1
    assert "auricle-edge: daemon ended with status -9" in text.read_text()
    # Where nobody reads on, as behind `| head`, it ends in silence.
    command = [sys.executable, "-m", "edge_client.cli", "try", "--folder", str(tmp_path / "tried"), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as unread:
        assert any("heard" in line for line in unread.stdout)
        unread.stdout.close()
        assert unread.wait(120) == 141
        assert unread.stderr.read() == ""


@pytest.mark.slow
def test_its_page_offers_a_sound_that_it_does_not_know_and_records_nothing(desk, tmp_path, page):
    text = tmp_path / "said"
    desk.leave_running("auricle-edge try --folder tried --no-browser", "said")
    wait_for(lambda: len(set(re.findall(r"heard (\w+)", text.read_text()))) == 4, what="each of the sounds")
    page.goto(f"{re.search(r'http://127[.]0[.]0[.]1:[0-9]+/', text.read_text())[0]}teach")
    page.get_by_text("Recording is off here").wait_for()
    assert not page.get_by_role("button", name="Start").count()
    page.get_by_role("button", name="Teach it kettle").click()
    page.locator("#kept", has_text="6 takes of kettle").wait_for()
    page.locator("#tried[data-state=done]", has_text="Heard: kettle").wait_for()
    at = len(text.read_text())
    wait_for(lambda: len(set(re.findall(r"heard (\w+)", text.read_text()[at:]))) == 5, what="all five sounds")
    page.get_by_role("button", name="Teach another").click()
    page.get_by_role("button", name="Teach it kettle").wait_for(state="detached")
    config = tmp_path / "tried" / "edge.toml"
    assert main(["record", "--label", "whistle", "--config", str(config)]) == 1


def test_a_device_of_ones_own_is_left_alone(tmp_path, capsys):
    config = tmp_path / "edge.toml"
    config.write_text("[device]\n")
    assert main(["try", "--folder", str(tmp_path)]) == 1
    assert f"auricle-edge run --config {config}" in capsys.readouterr().err
    assert config.read_text() == "[device]\n"
