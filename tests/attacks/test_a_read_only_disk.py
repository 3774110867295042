"""A memory card that becomes read-only under a running device: it listens on, and says that it cannot remember."""

import os
import re
import subprocess

import httpx
import numpy as np
import pytest
import soundfile

from edge_client.events.journal import past_events
from edge_client.storage.locks import is_locked, take_lock
from tests.support.edge_process import EdgeDaemon, wait_for
from tests.support.owner_page import OwnerPage

pytestmark = pytest.mark.slow


@pytest.fixture
def disk():
    """Makes a folder read-only for whatever is opened there from then on, and writable again."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a disk read-only")
    mounted = []

    def switch(folder, read_only):
        if not read_only:
            mounted.remove(folder)
            subprocess.run(["umount", "--lazy", folder], check=True)
            return
        made = subprocess.run(["mount", "--bind", folder, folder], capture_output=True, text=True)
        if made.returncode:
            pytest.skip(f"a disk cannot be mounted here: {made.stderr.strip()}")
        mounted.append(folder)
        remount = ["mount", "-o", "remount,bind,ro", folder]  # refused while a file that is being written is open there
        wait_for(lambda: subprocess.run(remount, capture_output=True).returncode == 0, what="a disk that is read-only")
        with pytest.raises(OSError, match="Read-only"):
            (folder / "x").touch()

    yield switch
    while mounted:
        switch(mounted[0], False)


def bangs(path):
    """Half a second of noise every four seconds."""
    rng = np.random.default_rng(1)
    sound = rng.normal(scale=0.002, size=64_000)
    sound[24_000:32_000] += rng.normal(scale=0.3, size=8_000)
    soundfile.write(path, sound, 16_000)
    return path


def hears(device):
    """Whether it hears something from now on."""
    before = len(device.events())
    return wait_for(lambda: len(device.events()) > before + 1, what="two more sounds")


@pytest.mark.parametrize("in_memory", [True, False])
def test_it_listens_on_and_says_that_it_cannot_remember_and_remembers_again(tmp_path, disk, in_memory):
    sections = f'[microphone]\nfile = "{bangs(tmp_path / "bangs.wav")}"\n[detector]\nunknown_refractory_s = 1\n'
    device = EdgeDaemon(tmp_path / "shelf", "base", sections)
    if not in_memory:  # without systemd the status lies on the disk, too
        device.runtime = ""
    device.state.mkdir()
    (device.state / "record.lock").touch()  # its owner recorded before

    def status():
        return device.command("status", check=False)

    with device.start(os.environ), OwnerPage(device.config) as page:
        hears(device)
        wait_for(lambda: status().returncode == 0, what="a daemon that is well")
        (device.state / ".identity.json.0123abcd").touch()  # half-written, and damaged: what a start removes
        (device.state / "embeddings.safetensors").write_bytes(b"x")
        disk(device.state, read_only=True)
        wait_for(lambda: "cannot remember anything" in device.log(), what="a line of the log")
        hears(device)
        said = wait_for(lambda: (done := status()).returncode == 4 and done.stdout, what="its status")
        assert f"CANNOT REMEMBER anything: the disk of {device.state} is read-only" in said
        assert "STANDS STILL" not in said
        with httpx.Client(base_url=page.url, trust_env=False, timeout=180) as browser:
            for path in ("/", "/teach", "/sounds"):
                shown = browser.get(path)
                assert (shown.status_code, "cannot remember anything" in shown.text) == (200, True), path
            headers = {"Origin": page.url, "X-CSRF-Token": re.search(r'csrf-token" content="(\w+)"', shown.text)[1]}
            sent = (tmp_path / "bangs.wav").read_bytes()
            refused = browser.post("/teach/add?label=bang&name=a.wav", content=sent, headers=headers)
            assert (refused.is_success, "Read-only" in refused.text) == (False, True), refused.text
        assert "is read-only" in device.command("doctor", check=False).stdout
        assert device.end() == 0
        device.start(os.environ)  # as its watchdog would, or a power cut
        hears(device)
        disk(device.state, read_only=False)
        wait_for(lambda: "can remember again" in device.log(), what="a disk that is mended")
        known = len(past_events(device.device_state().database, 1000))
        wait_for(lambda: len(past_events(device.device_state().database, 1000)) > known, what="an event that is kept")
        wait_for(lambda: status().returncode == 0, what="a daemon that is well again")
        assert "cannot remember" not in httpx.get(page.url, trust_env=False, timeout=180).text
        assert device.end() == 0
        assert "Traceback" not in page.end()
    assert device.log().count("cannot remember anything") == 2  # once for each time that it ran
    assert "Traceback" not in device.log()


def test_a_lock_is_taken_and_asked_about_where_nothing_can_be_written(tmp_path, disk):
    held = tmp_path / "held.lock"
    assert not is_locked(held)
    assert not held.exists()  # who asks writes nothing
    os.close(take_lock(held))
    disk(tmp_path, read_only=True)
    assert not is_locked(held)
    descriptor = take_lock(held)
    assert is_locked(held)
    assert take_lock(held) is None
    os.close(descriptor)
    assert not is_locked(held)
    with pytest.raises(OSError, match="Read-only"):
        take_lock(tmp_path / "new.lock")
