"""A paused device, asked of the system itself: nothing records, whoever paused it, and through kills and restarts."""

import asyncio
import contextlib
import json
import signal
import stat
from datetime import datetime
from pathlib import Path

import pytest
from wyoming.audio import AudioChunk
from wyoming.client import AsyncClient
from wyoming.error import Error
from wyoming.info import Describe, Info

from tests.edge_client.voice import test_wake_words
from tests.support.edge_process import wait_for
from tests.support.mqtt_broker import Broker, Reader, needs_broker, starting
from tests.support.sounds import write_clips
from tests.support.stream_server import StreamServer, needs_ffmpeg
from tests.support.taught_device import PlayingDaemon

pytestmark = [pytest.mark.slow, needs_broker, needs_ffmpeg]


def children(pid):
    """Programs that a process runs, as their arguments."""
    found = []
    for told in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended
            if int(told.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(arguments(told.parent))
    return list(filter(None, found))  # one that ended has none


def arguments(process):
    return (process / "cmdline").read_bytes().decode().replace("\0", " ")


def records(pid):
    """What of a daemon may bring sound: its recorders, and sound devices and pipes that it reads from."""
    daemon = Path(f"/proc/{pid}")
    others = ("learning.worker", arguments(daemon))  # a training; and one of which nothing but the process is there yet
    recorders = [words for words in children(pid) if not any(other in words for other in others)]
    opened = []
    for link in (daemon / "fd").iterdir():
        with contextlib.suppress(OSError):
            if link.lstat().st_mode & stat.S_IRUSR:  # a job is written to a training
                opened.append(str(link.readlink()))
    return recorders + [name for name in opened if name.startswith(("pipe:", "/dev/snd"))]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A broker, a camera, and a device with both and a microphone, which hears its room again and again."""
    folder = tmp_path_factory.mktemp("home")
    with starting() as start, contextlib.closing(StreamServer()) as camera:
        broker = start(Broker, folder)
        sections = (
            f'[microphones.camera]\nurl = "{camera.url("rtsp")}"\n[mqtt]\nhost = "127.0.0.1"\nport = {broker.port}\n'
            "[detector]\nunknown_refractory_s = 1\n"
        )
        with PlayingDaemon(folder / "shelf", sections) as device:
            write_clips(device.folder / "recordings", "yes", 6, seed=9)
            device.start()
            device.reader, device.camera = start(Reader, broker), camera
            device.base = f"auricle/{device.device_state().identity.load().device_id}"
            listens(device)
            yield device
            assert device.end() == 0
            assert "Traceback" not in device.log()


def listens(device):
    """Wait until both inputs give sound."""

    def both():
        inputs = now(device).get("inputs", {})
        return len(inputs) == 2 and all(
            one and one["frames"] and one["last_frame_age_s"] < 1 for one in inputs.values()
        )

    def opened():
        found = records(device.process.pid)
        return len(children(device.process.pid)) >= 2 and any("pipe:" in name for name in found)

    # The status is seconds old: by now an input may be closed, or opened anew.
    wait_for(lambda: not now(device).get("paused") and both() and opened(), what="sound of both inputs")


def now(device):
    """The status of the daemon that runs, and not of one before."""
    found = device.status()
    return found if found.get("pid") == device.process.pid else {}


def is_silent(device):
    """Nothing records, and nothing is kept, now and after what would have been several sounds."""
    wait_for(lambda: (now(device).get("paused") or {"closed": False})["closed"], what="that all is closed")
    assert records(device.process.pid) == []
    before = device.events(), device.count("unknown"), frames(device)
    written = device.status()["time"]
    wait_for(lambda: device.status()["time"] > written + 3, what="a later status")
    assert (device.events(), device.count("unknown"), frames(device)) == before
    assert records(device.process.pid) == []


def frames(device):
    return [one["frames"] for one in device.status()["inputs"].values()]


def said(device, **expected):
    """Wait for a message about the pause that says so; return it."""
    while True:
        found = json.loads(device.reader.next(f"{device.base}/pause").payload)
        if expected.items() <= found.items():
            return found


def test_a_command_closes_all_that_records_and_opens_it_again(home):
    out = home.command("pause").stdout
    assert "paused since" in out
    assert "by a command: the microphone is closed" in out
    is_silent(home)
    shown = home.command("status")
    assert "PAUSED    since" in shown.stdout
    assert shown.returncode == 0
    assert said(home, paused="ON")["by"] == "command"
    home.command("resume")
    listens(home)
    said(home, paused="OFF")
    assert "PAUSED" not in home.command("status").stdout


def test_it_stays_paused_through_a_kill_and_a_restart(home):
    home.command("pause")
    home.end(signal.SIGKILL)
    home.start()
    is_silent(home)
    assert json.loads(home.command("pause", "--for", "2h", "--json").stdout)["paused"]["until"]
    assert home.end() == 0
    assert "until" in home.command("pause", "--for", "3h").stdout  # nobody runs
    home.start()
    is_silent(home)
    home.command("resume")
    listens(home)


def test_a_pause_for_a_time_ends_by_itself(home):
    home.command("pause", "--for", "5s")
    listens(home)


def test_home_assistant_pauses_at_once_and_ends_it(home):
    press(home, b"ON")
    told = said(home, paused="ON", by="Home Assistant")
    assert told["until"] is None
    is_silent(home)
    press(home, b"90s")
    while said(home, paused="ON")["until"] is None:
        continue
    press(home, b"OFF")
    said(home, paused="OFF")
    listens(home)


def test_a_command_that_is_none_or_was_retained_changes_nothing(home):
    for payload in (b"", b"on", b"1000000000d", b"-5m", b"\xff" * 100_000, b"[" * 5_000, b'{"a":1}', b"ON\0"):
        press(home, payload)
    press(home, b"ON", retain=True)
    said(home, paused="ON")  # whoever sends it now, means it
    press(home, b"OFF")
    said(home, paused="OFF")
    wait_for(lambda: "a command by MQTT was refused" in home.log(), what="a warning")
    assert home.end() == 0
    home.start()
    listens(home)  # what the broker retained pauses nobody
    press(home, b"", retain=True)


def press(device, payload, *, retain=False):
    device.reader.client.publish(f"{device.base}/pause/set", payload, qos=1, retain=retain).wait_for_publish(180)


def test_the_owner_is_told_the_way_out_and_may_take_in_recordings(home, tmp_path):
    write_clips(tmp_path / "more", "no", 5, seed=4)
    home.command("pause")
    try:
        refused = home.command("record", "--label", "bell", check=False)
        assert refused.returncode == 1
        assert "auricle-edge resume" in refused.stderr
        assert "paused since" in home.command("doctor", check=False).stdout
        home.command("import", tmp_path / "more")
        assert records(home.process.pid) == []
    finally:
        home.command("resume")


def test_no_sound_of_a_satellite_is_taken_and_whoever_asks_is_answered(home):
    async def talk(uri):
        piece = AudioChunk(16_000, 2, 1, bytes(3_200)).event()
        async with AsyncClient.from_uri(uri) as client:
            await client.write_event(piece)
            home.command("pause")
            answer = asyncio.create_task(client.read_event())
            while not answer.done():  # what was on the way when it was paused is taken as before
                with contextlib.suppress(ConnectionError):
                    await client.write_event(piece)
                await asyncio.wait([answer], timeout=0.2)
            told = answer.result()
            assert Error.is_type(told.type)
            assert "auricle-edge resume" in Error.from_event(told).text
            assert await client.read_event() is None
        async with AsyncClient.from_uri(uri) as client:
            await client.write_event(Describe().event())
            assert Info.is_type((await client.read_event()).type)

    with test_wake_words.running(home.folder, "voice") as uri:
        asyncio.run(talk(uri))
    home.command("resume")
    listens(home)


def test_outside_of_its_hours_nothing_records(home):
    text = home.config.read_text()
    home.config.write_text(f'{text}[listen]\nhours = ["{other_hours()}"]\n')
    try:
        home.end()
        home.start()
        is_silent(home)
        assert "by its hours" in home.command("status").stdout
        home.command("resume")
        listens(home)
        assert home.end() == 0
    finally:
        home.config.write_text(text)
        home.start()
    listens(home)


def other_hours():
    """An hour that is far from now, as a device's configuration has it."""
    hour = (datetime.now().hour + 11) % 24
    return f"{hour:02d}:00-{(hour + 1) % 24:02d}:00"
