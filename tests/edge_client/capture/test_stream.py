"""A network stream in the place of a microphone: real ffmpeg, and a server that wants a password."""

import contextlib
import logging
import subprocess
from pathlib import Path

import numpy as np
import pytest

from edge_client.capture import microphone, stream
from edge_client.capture.microphone import Microphone
from edge_client.config.sections import MicrophoneConfig, RefusedValueError
from edge_client.errors import AudioError
from tests.support.desk import free_port
from tests.support.edge_process import wait_for
from tests.support.stream_server import PASSWORD, RATE_HZ, TONE_HZ, StreamServer, needs_ffmpeg


@pytest.fixture
def server():
    with contextlib.closing(StreamServer(free_port())) as server:  # that nobody takes while it is closed
        yield server


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """On a busy machine the server may not answer for long."""
    monkeypatch.setitem(stream._OPTIONS, "timeout", "180000000")


def pitch(samples):
    return np.abs(np.fft.rfft(samples * np.hanning(len(samples)))).argmax() * RATE_HZ / len(samples)


def ffmpegs():
    """Arguments of all programs of this name."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it ended
            found.append(path.read_bytes().decode(errors="replace").split("\0"))
    return [arguments for arguments in found if arguments[0].endswith("ffmpeg")]


@needs_ffmpeg
@pytest.mark.parametrize("scheme", ["rtsp", "http"])
def test_a_stream_is_heard_and_its_password_is_seen_nowhere(server, open_microphone, scheme, caplog):
    caplog.set_level(logging.DEBUG)
    source = open_microphone(RATE_HZ, url=server.url(scheme))
    assert abs(pitch(source.read(RATE_HZ // 2, 60.0)) - TONE_HZ) < 5
    assert source.device == f"{scheme}://127.0.0.1:{server.port}"
    assert source.trouble == ""
    shown = [caplog.text, source.device, repr(MicrophoneConfig(url=server.url(scheme))), *map(str, ffmpegs())]
    assert len(shown) > 3
    assert not any(PASSWORD in text or "pa'ss" in text or "token-of-the-camera" in text for text in shown)


@needs_ffmpeg
def test_a_stream_that_ends_is_opened_again_and_says_meanwhile_what_is_the_matter(server, open_microphone, monkeypatch):
    monkeypatch.setattr(microphone, "_LONGEST_PAUSE_S", 0.5)
    source = open_microphone(RATE_HZ, url=server.url("rtsp"))
    source.read(RATE_HZ // 10, 60.0)
    server.close()
    wait_for(lambda: "Connection refused" in source.trouble, what="why there is no sound")
    assert not any(text in source.trouble for text in ("pa'ss", "token-of-the-camera"))
    with contextlib.closing(StreamServer(server.port)):
        wait_for(lambda: source.reopened and not source.trouble, what="the stream to come back")
        while len(source.read(RATE_HZ, 0.0)):
            continue  # of before
        assert abs(pitch(source.read(RATE_HZ // 2, 60.0)) - TONE_HZ) < 5


@needs_ffmpeg
@pytest.mark.parametrize("scheme", ["rtsp", "http"])
def test_a_wrong_password_is_told_without_repeating_it(server, scheme):
    with pytest.raises(AudioError, match=r"401 Unauthorized.*are the address, the name and the password right") as told:
        Microphone(MicrophoneConfig(url=server.url(scheme, "owner:secret@")), RATE_HZ)
    assert "secret" not in str(told.value)
    assert "token-of-the-camera" not in str(told.value)


@needs_ffmpeg
@pytest.mark.parametrize("form", ["ffconcat version 1.0\nfile 'file:{}'\n", "#EXTM3U\n#EXTINF:1,\nfile://{}\n"])
def test_a_server_cannot_have_a_file_of_this_machine_read(tmp_path, form):
    sound = tmp_path / "private.wav"
    subprocess.run(f"ffmpeg -loglevel error -f lavfi -i sine=d=3 {sound}".split(), check=True)
    with (
        contextlib.closing(StreamServer(other=form.format(sound).encode())) as server,
        pytest.raises(AudioError, match="cannot record from 'http://127"),
    ):
        Microphone(MicrophoneConfig(url=server.url("http")), RATE_HZ)


def test_without_ffmpeg_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(stream.shutil, "which", lambda _: None)
    with pytest.raises(AudioError, match="sudo apt install ffmpeg"):
        Microphone(MicrophoneConfig(url="rtsp://camera/1"), RATE_HZ)


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "rtsp://", "concat:a|b", "rtsp://secret@h/a b", "rtsp://secret@h/\n", "http://h:x/"]
)
def test_what_is_no_address_of_a_stream_is_refused_without_repeating_it(url):
    with pytest.raises(RefusedValueError) as told:
        MicrophoneConfig(url=url)
    assert "secret" not in str(told.value)
    with pytest.raises(RefusedValueError, match="in the place of device"):
        MicrophoneConfig(url="rtsp://camera/1", device="USB")
