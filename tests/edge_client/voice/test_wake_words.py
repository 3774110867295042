"""A taught sound as a wake word: the real service, spoken to by the protocol's own client."""

import asyncio
import contextlib
import json
import shutil
import signal
import socket
import struct
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
from edge_client.config import load_config
from edge_client.voice.streams import RATES_HZ
from tests.support.checkout import ROOT, run_module
from tests.support.edge_process import wait_for
from tests.support.mqtt_broker import Broker, Reader, needs_broker, starting
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


def sound(labels: tuple[str, ...], rate: int, channels: int, width: int = 2) -> list[bytes]:
    """Quiet noise with the sounds in it, each from the third of its six seconds on, PCM in pieces of 0.1 s.

    In samples of four bytes, as I2S microphones give them, with an offset of 5 %.
    """
    rng = np.random.default_rng(5)
    stream = rng.normal(0, 0.001, 6 * RATE * len(labels)).astype(np.float32)
    for number, label in enumerate(labels):
        taught = melody(label, rng)
        stream[(6 * number + 3) * RATE :][: len(taught)] += taught
    if rate == 48_000:  # as an I2S microphone has it
        stream += 0.2
    stream += np.float32(0.05 * (width == 4))
    levels = (resample(stream, RATE, rate) * (2**31 - 129)).clip(-(2**31), 2**31 - 129).astype("<i4")
    levels = np.repeat(levels[:, None], channels, axis=1)
    # The upper bytes of each sample; WAV's samples of one byte are unsigned.
    pcm = levels.view(np.uint8).reshape(len(levels), channels, 4)[:, :, 4 - width :] ^ (128 if width == 1 else 0)
    return [pcm[start : start + rate // 10].tobytes() for start in range(0, len(pcm), rate // 10)]


async def listen(uri, labels, names, rate=16_000, channels=1, width=2, start=True):
    """What the service says of sounds until their end; ``start``: format that the stream's start names, if any."""
    found = []
    async with AsyncClient.from_uri(uri) as client:
        await client.write_event(Detect(names=names).event())
        if start:
            named = (rate, width, channels) if start is True else start
            await client.write_event(AudioStart(*named).event())
        for number, piece in enumerate(sound(labels, rate, channels, width)):
            await client.write_event(AudioChunk(rate, width, channels, piece, timestamp=100 * number).event())
        await client.write_event(AudioStop().event())
        await client.write_event(Ping("done").event())
        while not Pong.is_type((event := await client.read_event()).type):
            found.append(event)
    return found


@pytest.mark.parametrize(
    ("label", "names", "rate", "channels", "width", "start"),
    [
        ("stop", ["stop"], 16_000, 1, 2, True),
        ("up", None, 44_100, 2, 2, True),
        ("up", ["up"], 16_000, 1, 2, False),  # wyoming-satellite sends no start
        ("stop", ["stop"], 48_000, 1, 2, (16_000, 2, 1)),
        ("stop", ["stop"], 8_000, 1, 1, False),
        ("up", ["up"], 16_000, 2, 3, (16_000, 2, 1)),
        ("stop", ["stop"], 48_000, 8, 4, True),
    ],
)
def test_a_taught_sound_is_a_wake_word_in_any_format_that_the_chunks_have(
    service, label, names, rate, channels, width, start
):
    (event,) = asyncio.run(listen(service, (label,), names, rate, channels, width, start))
    detection = Detection.from_event(event)
    assert detection.name == label
    assert 3_000 <= detection.timestamp <= 5_000


def test_a_satellite_goes_on_after_a_word_and_may_change_its_format(service):
    """As wyoming-satellite does: one connection for days, `detect` anew after each command, never a start or a stop."""

    async def two_words():
        async with AsyncClient.from_uri(service) as client:
            names = []
            for label, rate, width in (("stop", 16_000, 2), ("up", 48_000, 4)):
                await client.write_event(Detect(names=["stop", "up"]).event())
                for piece in sound((label,), rate, 1, width):
                    await client.write_event(AudioChunk(rate, width, 1, piece).event())
                names.append(Detection.from_event(await client.read_event()).name)
            return names

    assert asyncio.run(two_words()) == ["stop", "up"]


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


@needs_broker
def test_of_a_homes_satellites_the_one_that_heard_the_word_best_answers(service, tmp_path):
    """Another satellite hears "stop" better and "up" worse."""
    device = copied(Path(service.removeprefix("unix://")).parent, tmp_path / "device")
    with starting() as start:
        broker = start(Broker, tmp_path)
        reader = start(Reader, broker)

        def hear_too(_client, _data, message):
            said = json.loads(message.payload or "{}").get("heard", {}) if message.topic == "auricle/home/villa" else {}
            if said and said["device"] != "other":
                better = 99.0 if said["label"] == "stop" else -99.0
                other = said | {"hearing_id": f"o{message.mid}", "device": "other", "ear": "other/", "snr_db": better}
                over = {"first": said["hearing_id"], "device": "other"}
                for one in ({"heard": other}, {"over": over}):
                    reader.client.publish(message.topic, json.dumps(one), qos=1)

        reader.client.on_message = hear_too
        home = f'[mqtt]\nhost = "127.0.0.1"\nport = {broker.port}\n[home]\nname = "villa"\nears = 1\n'
        with (device.folder / "edge.toml").open("a") as file:
            file.write(home)
        # However long the other one takes, the home waits for it.
        patient = "import edge_client.home.broker_link as link, edge_client.voice.wake_words as service; "
        patient += "arbiter = link.Arbiter; link.Arbiter = lambda device, _: arbiter(device, 600.0); "
        with running(device.folder, "home", f"{patient}service._HOME_S = 600.0") as uri:
            heard = asyncio.run(listen(uri, ("stop", "up"), None))
    assert [Detection.from_event(event).name for event in heard] == ["up"]


async def offered(uri):
    """The programs of wake words that the service describes; it offers one."""
    async with AsyncClient.from_uri(uri) as client:
        await client.write_event(Describe().event())
        return Info.from_event(await client.read_event()).wake


def test_it_tells_the_words_that_it_was_taught_by_the_devices_name(service):
    (program,) = asyncio.run(offered(service))
    assert program.name == "x"
    assert sorted(model.name for model in program.models) == sorted(LABELS)
    assert all(model.installed and model.phrase == model.description == model.name for model in program.models)


def copied(folder, target):
    """A copy of a device, whose bundle is one of its own, too."""
    target.mkdir()
    bundle = shutil.copy(load_config(folder / "edge.toml").bundle, target / "own.auricle")
    device = Device(target, bundle)
    shutil.copytree(folder / "state", target / "state", dirs_exist_ok=True)
    return device


def test_a_renamed_word_is_offered_by_its_new_name_and_the_log_says_who_waits_for_the_old(service, tmp_path):
    device = copied(Path(service.removeprefix("unix://")).parent, tmp_path / "device")
    log = device.folder / "renamed.log"

    async def go_on_through_a_renaming(uri):
        async with AsyncClient.from_uri(uri) as client:
            await client.write_event(Detect(names=["stop", "halt"]).event())
            await client.write_event(AudioChunk(16_000, 2, 1, bytes(3_200)).event())
            await asyncio.to_thread(wait_for, lambda: "waits for 'halt'" in log.read_text(), what="the first warning")
            config = device.folder / "edge.toml"
            run_module("edge_client.cli", "clips", "relabel", "--label", "stop", "halt", "--config", config, check=True)
            await asyncio.to_thread(device.teach)
            while "waits for 'stop'" not in log.read_text():
                await client.write_event(AudioChunk(16_000, 2, 1, bytes(3_200)).event())
                await asyncio.sleep(0.1)
            rng = np.random.default_rng(5)
            taught = np.concatenate([np.zeros(RATE), melody("stop", rng), np.zeros(2 * RATE)])
            pcm = (resample(taught.astype(np.float32), RATE, 16_000) * 32_767).astype("<i2").tobytes()
            for at in range(0, len(pcm), 3_200):
                await client.write_event(AudioChunk(16_000, 2, 1, pcm[at : at + 3_200]).event())
            return Detection.from_event(await client.read_event()).name

    hurry = "import edge_client.voice.streams as streams; streams._FRESH_S = 0.2"
    with running(device.folder, "renamed", hurry) as uri:
        assert asyncio.run(asyncio.wait_for(go_on_through_a_renaming(uri), 600)) == "halt"
        # The model is not loaded to tell its labels: Home Assistant asks every minute.
        device.config.bundle.unlink()
        (program,) = asyncio.run(offered(uri))
        assert sorted(model.name for model in program.models) == ["down", "halt", "up"]
    assert "choose one of these in the voice assistant's settings: " in log.read_text()


async def answer(uri, *events):
    """The first answer to events."""
    async with AsyncClient.from_uri(uri) as client:
        for event in events:
            await client.write_event(event)
        return await client.read_event()


FORMATS = [
    ((16_000, 5, 1), "not of 5 bytes in 1"),
    ((16_000, 2, 1_024), "not of 2 bytes in 1024"),
    ((16_000, 2, 0), "not of 2 bytes in 0"),
    ((767_999, 2, 1), "a sample rate of 767999 Hz; use one of 8000"),
]


@pytest.mark.parametrize(("sent", "said"), FORMATS)
def test_a_format_that_cannot_be_used_is_named(service, sent, said):
    refused = asyncio.run(answer(service, AudioChunk(*sent, b"\0" * 8).event()))
    assert said in Error.from_event(refused).text


def test_nonsense_is_refused_and_the_service_goes_on(service):
    lines = (b"no json\n", b"[" * 60_000, json.dumps({"type": "x", "payload_length": 1 << 20}).encode() + b"\n")
    for line in lines:
        with socket.socket(socket.AF_UNIX) as raw:
            raw.settimeout(180)
            raw.connect(service.removeprefix("unix://"))
            raw.sendall(line)
            raw.shutdown(socket.SHUT_WR)
            assert raw.recv(1) == b""
    assert asyncio.run(is_served(service))


def peak_mb(uri) -> float:
    """The most memory that the service had, MB."""
    with socket.socket(socket.AF_UNIX) as raw:
        raw.connect(uri.removeprefix("unix://"))
        pid, _, _ = struct.unpack("3i", raw.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1_024 for line in lines if line.startswith("VmHWM"))


def test_large_chunks_of_any_format_take_little_memory(service):
    """The largest chunks at the lowest rate become the most samples; odd rates in turn would need the most filters."""

    async def send(rates, width, channels):
        silence = (b"\x80" if width == 1 else b"\0") * (1 << 19)
        async with AsyncClient.from_uri(service) as client:
            for rate in rates:
                await client.write_event(AudioChunk(rate, width, channels, silence).event())
            await client.write_event(Ping("done").event())
            return (await client.read_event()).type

    async def at_once(*arguments):
        return await asyncio.gather(*(send(*arguments) for _ in range(4)))

    assert asyncio.run(at_once([16_000], 2, 1)) == ["pong"] * 4
    before = peak_mb(service)
    assert asyncio.run(at_once([8_000], 1, 1)) == ["pong"] * 4
    assert asyncio.run(at_once(RATES_HZ, 4, 8)) == ["pong"] * 4
    assert peak_mb(service) < before + 60  # 240 MB, where chunks wait whole


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


SILENCE = AudioChunk(16_000, 2, 1, bytes(3_200)).event()


async def lock_out(uri):
    """Stream from every place, and hold connections that ask nothing, or do not read what they asked."""
    async with contextlib.AsyncExitStack() as stack:
        streaming = [await stack.enter_async_context(AsyncClient.from_uri(uri)) for _ in range(4)]
        for client in streaming:
            await client.write_event(SILENCE)
            assert await is_open(client)
        fifth = await answer(uri, SILENCE)
        assert "4 satellites stream their sound already" in Error.from_event(fifth).text
        for number in range(60):
            raw = stack.enter_context(socket.socket(socket.AF_UNIX))
            raw.connect(uri.removeprefix("unix://"))
            raw.setblocking(False)
            if number % 2:
                with contextlib.suppress(BlockingIOError):
                    while True:
                        raw.send(b'{"type": "ping", "data": {"text": "x"}}\n' * 1_000)
            if number % 10 == 9:
                assert await is_served(uri)
        for client in streaming:
            await client.write_event(SILENCE)
            assert await is_open(client)
        await streaming[0].write_event(AudioStop().event())
        assert NotDetected.is_type((await streaming[0].read_event()).type)
        return await streams(uri)


def test_streams_are_limited_and_whoever_asks_is_answered(service):
    assert asyncio.run(asyncio.wait_for(lock_out(service), 600))


async def streams(uri):
    """Whether the service takes a new satellite's sound."""
    with contextlib.suppress(ConnectionError):  # it was refused while more was sent
        return Pong.is_type((await answer(uri, SILENCE, Ping().event())).type)


async def be_silent(uri):
    """Take every stream's place and say nothing more; return whether a fifth streams in the end."""
    async with contextlib.AsyncExitStack() as stack:
        silent = [await stack.enter_async_context(AsyncClient.from_uri(uri)) for _ in range(4)]
        for client in silent:
            await client.write_event(SILENCE)
            assert await is_open(client)
        while not await streams(uri):
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
            await satellite.write_event(SILENCE)
            await asyncio.sleep(0.1)
        return await is_open(satellite)


async def ping_on(uri):
    """Go on by pings alone; return once that was ended."""
    with contextlib.suppress(ConnectionError):  # leaving a client that was ended
        async with AsyncClient.from_uri(uri) as client:
            while await is_open(client):
                await asyncio.sleep(0.2)


def test_silent_clients_make_room_and_one_that_sends_sound_stays(service):
    folder = Path(service.removeprefix("unix://")).parent
    # No shorter: a client that has just been admitted, or sends sound, may stand still on a busy machine.
    hurry = "import edge_client.voice.wake_words as service; service._IDLE_S = 25.0"

    async def silent_ones(uri):
        return (await asyncio.gather(be_silent(uri), ping_on(uri)))[0]

    with running(folder, "hasty", hurry) as uri:
        assert asyncio.run(asyncio.wait_for(silent_ones(uri), 600))
        assert asyncio.run(asyncio.wait_for(send_sound(uri), 600))


def test_a_wrong_address_is_named(service):
    config = Path(service.removeprefix("unix://")).with_name("edge.toml")
    done = run_module("edge_client.cli", "wyoming", "--uri", "http://x", "--config", config)
    assert done.returncode == 1
    assert "--uri http://x" in done.stderr
    assert "tcp://127.0.0.1:10400" in done.stderr
