"""A taught sound as a wake word: the real service, spoken to by the protocol's own client."""

import asyncio
import contextlib
import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncClient
from wyoming.error import Error
from wyoming.info import Describe, Info
from wyoming.ping import Ping, Pong
from wyoming.wake import Detect, Detection, NotDetected

from edge_client.audio.resampling import resample
from tests.support.checkout import ROOT, run_module
from tests.support.edge_process import wait_for
from tests.support.sounds import RATE, melody, write_clips
from tests.support.taught_device import Device

pytestmark = pytest.mark.slow
LABELS = ("down", "stop", "up")


@pytest.fixture(scope="module")
def service(tmp_path_factory, pretrained_bundle):
    """A device that was taught three sounds, and its service at a Unix socket."""
    device = Device(tmp_path_factory.mktemp("device"), pretrained_bundle)
    for label in LABELS:
        write_clips(device.clips, label, 8, seed=1)
    device.teach()
    with running(device.folder, "voice") as uri:
        yield uri


@contextlib.contextmanager
def running(folder, name, code="pass"):
    """The service of a device at a socket in its folder; the code is run first."""
    uri = f"unix://{folder / name}"
    program = f"import sys; {code}; from edge_client.cli import main; sys.exit(main())"
    words = ["wyoming", "--uri", uri, "--config", str(folder / "edge.toml")]
    command = [*read_only(folder / "state"), sys.executable, "-c", program, *words]
    with (folder / f"{name}.log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, stderr=log)
        wait_for(lambda: listens(folder / name), what="the socket")
        yield uri
        process.send_signal(signal.SIGTERM)
        assert process.wait(180) == 0
    assert "Traceback" not in (folder / f"{name}.log").read_text()


def read_only(folder) -> list[str]:
    """What precedes a command that may not write a folder, as the service; nothing where a test may not do this."""
    script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    prefix = ["unshare", "--mount", "sh", "-c", script, str(folder)]
    return prefix if subprocess.run([*prefix, "true"], stderr=subprocess.DEVNULL).returncode == 0 else []


def listens(path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True


def sound(labels: tuple[str, ...], rate: int, channels: int) -> list[bytes]:
    """Quiet noise with the sounds in it, each from the third of its six seconds on, 16-bit PCM, in pieces of 0.1 s."""
    rng = np.random.default_rng(5)
    stream = rng.normal(0, 0.001, 6 * RATE * len(labels)).astype(np.float32)
    for number, label in enumerate(labels):
        taught = melody(label, rng)
        stream[(6 * number + 3) * RATE :][: len(taught)] += taught
    pcm = (resample(stream, RATE, rate) * 32_767).clip(-32_768, 32_767).astype("<i2")
    pcm = np.repeat(pcm[:, None], channels, axis=1)
    return [pcm[start : start + rate // 10].tobytes() for start in range(0, len(pcm), rate // 10)]


async def listen(uri, labels, names, rate=16_000, channels=1):
    """What the service says of sounds until their end."""
    found = []
    async with AsyncClient.from_uri(uri) as client:
        await client.write_event(Detect(names=names).event())
        await client.write_event(AudioStart(rate, 2, channels).event())
        for number, piece in enumerate(sound(labels, rate, channels)):
            await client.write_event(AudioChunk(rate, 2, channels, piece, timestamp=100 * number).event())
        await client.write_event(AudioStop().event())
        await client.write_event(Ping("done").event())
        while not Pong.is_type((event := await client.read_event()).type):
            found.append(event)
    return found


@pytest.mark.parametrize(
    ("label", "names", "rate", "channels"), [("stop", ["stop"], 16_000, 1), ("up", None, 44_100, 2)]
)
def test_a_taught_sound_is_a_wake_word_also_where_none_is_named(service, label, names, rate, channels):
    (event,) = asyncio.run(listen(service, (label,), names, rate, channels))
    detection = Detection.from_event(event)
    assert detection.name == label
    assert 3_000 <= detection.timestamp <= 5_000


def test_satellites_at_once_hear_their_own_words_alone(service):
    """One hears both sounds and waits for the first, one hears them the other way round and waits for the second; a
    third hears another sound. All speak at the same time.
    """

    async def at_once():
        return await asyncio.gather(
            listen(service, ("stop", "up"), ["stop"]),
            listen(service, ("stop", "up"), ["up"], rate=48_000, channels=2),
            listen(service, ("down",), ["stop"]),
        )

    (first,), (second,), (third,) = asyncio.run(at_once())
    assert Detection.from_event(first).name == "stop"
    assert 3_000 <= Detection.from_event(first).timestamp <= 5_000
    assert Detection.from_event(second).name == "up"
    assert 9_000 <= Detection.from_event(second).timestamp <= 11_000
    assert NotDetected.is_type(third.type)


def test_it_tells_the_words_that_it_was_taught(service):
    async def ask():
        async with AsyncClient.from_uri(service) as client:
            await client.write_event(Describe().event())
            return await client.read_event()

    (program,) = Info.from_event(asyncio.run(ask())).wake
    assert program.name == "x"  # the device's: Home Assistant titles its entry so
    assert sorted(model.name for model in program.models) == sorted(LABELS)
    assert all(model.installed and model.description == model.phrase == model.name for model in program.models)


def test_nonsense_is_refused_and_the_service_goes_on(service):
    async def send(*events):
        async with AsyncClient.from_uri(service) as client:
            for event in events:
                await client.write_event(event)
            return await client.read_event()

    refused = asyncio.run(send(AudioStart(16_000, 4, 1).event()))
    assert "16-bit PCM, not 32-bit" in Error.from_event(refused).text
    refused = asyncio.run(send(AudioChunk(16_000, 2, 1, b"\0\0").event()))
    assert "before audio-start" in Error.from_event(refused).text
    for line in (b"no json\n", b"[" * 60_000, json.dumps({"type": "x", "payload_length": 10**12}).encode() + b"\n"):
        with socket.socket(socket.AF_UNIX) as raw:
            raw.settimeout(180)
            raw.connect(service.removeprefix("unix://"))
            raw.sendall(line)
            raw.shutdown(socket.SHUT_WR)
            assert raw.recv(1) == b""
    assert asyncio.run(is_served(service))


async def is_served(uri):
    try:
        async with AsyncClient.from_uri(uri) as client:
            await client.write_event(Describe().event())
            event = await client.read_event()
    except ConnectionError:  # there was no room
        return False
    return event is not None and Info.is_type(event.type)


async def is_open(client):
    """Whether the service still answers a client."""
    try:
        await client.write_event(Ping("still here?").event())
        return await client.read_event() is not None
    except ConnectionError:
        return False


async def be_silent(uri):
    """Take every place and say nothing; return whether a fifth client is served in the end."""
    async with contextlib.AsyncExitStack() as stack:
        silent = [await stack.enter_async_context(AsyncClient.from_uri(uri)) for _ in range(4)]
        await silent[0].write_event(Detect().event())
        await silent[1].write_event(AudioStart(16_000, 2, 1).event())
        while not await is_served(uri):
            await asyncio.sleep(0.1)
        ended = [await client.read_event() for client in silent]
        return ended == [None] * 4


async def send_sound(uri):
    """Send sound as long as three silent clients last; return whether this one is served after them."""
    async with contextlib.AsyncExitStack() as stack:
        satellite, *silent = [await stack.enter_async_context(AsyncClient.from_uri(uri)) for _ in range(4)]
        await satellite.write_event(AudioStart(16_000, 2, 1).event())
        waiting = asyncio.gather(*(client.read_event() for client in silent))
        while not waiting.done():
            await satellite.write_event(AudioChunk(16_000, 2, 1, bytes(3_200)).event())
            await asyncio.sleep(0.1)
        return await is_open(satellite)


async def ping_on(uri):
    """Keep every place by pings alone; return whether somebody else is served after a while."""
    served = False
    with contextlib.suppress(ConnectionError):  # leaving clients that were ended
        async with contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(AsyncClient.from_uri(uri)) for _ in range(4)]
            while any([await is_open(client) for client in clients]):
                await asyncio.sleep(0.2)
            served = await is_served(uri)
    return served


def test_silent_clients_make_room_and_one_that_sends_sound_stays(service):
    folder = Path(service.removeprefix("unix://")).parent
    hurry = "import edge_client.voice.wake_words as service; service._IDLE_S = 5.0"
    with running(folder, "hasty", hurry) as uri:
        assert asyncio.run(asyncio.wait_for(be_silent(uri), 180))
        assert asyncio.run(asyncio.wait_for(send_sound(uri), 180))
        assert asyncio.run(asyncio.wait_for(ping_on(uri), 60))


def test_a_wrong_address_is_named(service):
    config = Path(service.removeprefix("unix://")).with_name("edge.toml")
    done = run_module("edge_client.cli", "wyoming", "--uri", "http://x", "--config", config)
    assert done.returncode == 1
    assert "--uri http://x" in done.stderr
    assert "tcp://127.0.0.1:10400" in done.stderr
