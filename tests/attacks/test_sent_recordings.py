"""Recordings that a browser sends to the owner's page: what is no clip is refused, and nothing of it stays."""

import io
import re
import struct

import httpx
import numpy as np
import pytest
import soundfile

from edge_client.owner_page.recordings import LARGEST_BYTES
from tests.support.edge_process import EdgeDaemon, wait_for
from tests.support.owner_page import OwnerPage
from tests.support.sounds import RATE, melody


def encoded(samples, form="WAV", rate_hz=RATE):
    data = io.BytesIO()
    soundfile.write(data, samples, rate_hz, format=form)
    return data.getvalue()


GOOD = encoded(melody("yes", np.random.default_rng(0)))
SILENCE = np.zeros(60 * RATE, np.int16)
# A file of 16 bits says how much sound it has, in how many channels.
CLAIMS = b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\1\0" + struct.pack("<HIIHH", 65_535, 0xFFFFFFFF, 0, 65_535, 16)
BAD = {
    "nothing": b"",
    "no sound": b"x" * 100_000,
    "a page": b"<script>alert(1)</script>",
    "half a head": GOOD[:20],
    "no head": GOOD[44:],
    "a claim": CLAIMS + b"data\xff\xff\xff\xff" + b"\0" * 1000,
    "a minute of silence": encoded(SILENCE, "FLAC"),
    "ten thousand times as long": encoded(np.zeros(20_000_000, np.int16), "FLAC", 655_350),
    "many channels": encoded(np.zeros((1000, 1000), np.int16)),
    "too large": GOOD + b"\0" * LARGEST_BYTES,
}
NAMES = (
    *("../../identity.json", "/etc/passwd.wav", "a\0.wav", "", ".wav", "x" * 2000 + ".wav"),
    *("\u202egpj.wav", "a b;c.wav"),
)


@pytest.fixture
def page(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    made = OwnerPage(EdgeDaemon(tmp_path, "cnn1", "").config)
    yield made
    made.end()


@pytest.fixture
def send(page):
    with httpx.Client(base_url=page.url, timeout=180) as client:
        token = re.search(r'csrf-token" content="(\w+)"', client.get("/teach").text)[1]
        own = {"Origin": page.url, "X-CSRF-Token": token}

        def sent(data, name="a.wav", label="bell", headers=own):
            return client.post("/teach/add", params={"label": label, "name": name}, content=data, headers=headers)

        yield sent


def stored(folder):
    return sorted(path.name for path in (folder / "state" / "clips").rglob("*.wav"))


def test_what_is_no_clip_is_refused_and_leaves_nothing(tmp_path, send):
    for what, data in BAD.items():
        try:
            answer = send(data, "a.flac")
        except (httpx.WriteError, httpx.RemoteProtocolError, httpx.ReadError):
            assert what == "too large"  # it is not read to its end
            continue
        assert (answer.status_code, str(tmp_path) in answer.text) == (409, False), (what, answer.text)
        assert answer.json()["error"], what
    for label in ("", "../x", "_background_", ".hidden", "a" * 5000):
        assert send(GOOD, label=label).status_code == 409
    assert send(GOOD, headers={}).status_code == 403
    assert (stored(tmp_path), list((tmp_path / "tmp").iterdir())) == ([], [])
    assert "keeps it" in send(GOOD).json()["message"]
    assert "already" in send(GOOD).json()["message"]
    assert len(stored(tmp_path)) == 1


def test_a_name_is_a_name_and_never_a_place(tmp_path, send):
    send(b"no sound")
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    for name in NAMES:
        answer = send(b"no sound", name)
        assert answer.status_code == 409, name
        assert str(tmp_path) not in answer.text
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before


def test_who_sends_slowly_keeps_others_waiting_and_nobody_from_the_page(page, send):
    token = re.search(r'csrf-token" content="(\w+)"', httpx.get(f"{page.url}/teach", timeout=180).text)[1]
    head = (
        "POST /teach/add?label=bell&name=a.wav HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n"
        f"X-CSRF-Token: {token}\r\nContent-Length: 1000\r\n\r\nRIFF"
    )
    slow = []

    def held():
        slow.append(page.connect(data=head.encode()))
        return "being added" in send(GOOD).text

    wait_for(held, what="a slow one")
    assert httpx.get(f"{page.url}/teach", timeout=180).status_code == 200
    for one in slow:
        one.close()
    wait_for(lambda: send(GOOD).status_code == 200, what="the end of the slow one")
