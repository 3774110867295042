"""Files that somebody made up as another device's clips: refused by one clear line, and nothing of them stays."""

import contextlib
import hashlib
import io
import json
import re
import struct
import wave
import zipfile

import httpx
import numpy as np
import pytest

from edge_client.audio.recordings import encode_wave
from fleet_protocol.bundle.ready_bundles import find_bundle
from tests.support.edge_commands import EdgeCommands
from tests.support.edge_process import EdgeDaemon
from tests.support.owner_page import OwnerPage
from tests.support.sounds import RATE, melody
from tests.support.taught_device import Device

WAVE = encode_wave(melody("yes", np.random.default_rng(0)), RATE)
DOCUMENT = {"format": 1, "known": {}, "thresholds": {}}


def named(data, folder="takes/bell"):
    return f"{folder}/{hashlib.sha256(data).hexdigest()[:16]}.wav"


def other_wave(channels=1, width=2, rate_hz=RATE, samples=b"\0\1" * 8000):
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate_hz)
        file.writeframes(samples)
    return buffer.getvalue()


def made(*entries, document=DOCUMENT, compression=zipfile.ZIP_STORED):
    """A file of these entries, by name and content."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        if document is not None:
            data = document if isinstance(document, bytes) else json.dumps(document)
            archive.writestr("auricle-clips.json", data)
        for name, data in entries:
            archive.writestr(zipfile.ZipInfo(name) if compression == zipfile.ZIP_STORED else name, data)
    return buffer.getvalue()


GOOD = made((named(WAVE), WAVE))
NAMES = (
    *(
        "../../beside.wav",
        "/etc/passwd",
        "takes/../beside/{}",
        "takes/./{}",
        "takes//{}",
        "takes/a/b/{}",
        "{}",
        "takes/{}",
    ),
    *(
        "takes/_not_/{}",
        "takes/.x/{}",
        "takes/_background_/{}",
        "not/_deleted_/{}",
        "takes/unknown/{}",
        "other/bell/{}",
    ),
    *(
        "takes/a\\b/{}",
        "takes/bell/{}/",
        "takes/\x1b[2J/{}",
        "takes/ bell/{}",
        "takes/" + "x" * 300 + "/{}",
        "takes/bell/x.wav",
    ),
    *("takes/bell/known-computer", "takes/\u202ebell/{}", "takes/ba\nr/{}"),
)
DOCUMENTS = {
    "none": None,
    "no JSON": b"{",
    "deep": b"[" * 100_000,
    "a list": b"[]",
    "another format": {"format": 2, "known": {}, "thresholds": {}},
    "half": {"format": 1, "known": {}},
    "large": json.dumps(DOCUMENT).encode() + b" " * 2**19,
    "not a number": b'{"format": 1, "known": {}, "thresholds": {"bell": NaN}}',
    "beyond": b'{"format": 1, "known": {}, "thresholds": {"bell": 1e999}}',
    "digits": b'{"format": 1, "known": {}, "thresholds": {"bell": ' + b"1" * 5000 + b"}}",
    "more than 1": {"format": 1, "known": {}, "thresholds": {"bell": 1.5}},
    "truth": {"format": 1, "known": {}, "thresholds": {"bell": True}},
    "text": {"format": 1, "known": {}, "thresholds": {"bell": "0.5"}},
    "a path": {"format": 1, "known": {"../x": "computer"}, "thresholds": {}},
    "numbers": {"format": 1, "known": {"bell": 1}, "thresholds": {}},
    "hours": DOCUMENT | {"listened": {"bell": [True, ["25:00-26:00"]]}},
    "no hours": DOCUMENT | {"listened": {"bell": [True, "07:00-23:00"]}},
    "more than hours": DOCUMENT | {"listened": {"bell": [True, [], 1]}},
    "neither on nor off": DOCUMENT | {"listened": {"bell": [1, []]}},
    "many": {"format": 1, "known": {f"a{number}": "b" for number in range(1000)}, "thresholds": {}},
}
SOUNDS = {
    "nothing": b"",
    "no sound": b"x" * 1000,
    "stereo": other_wave(channels=2),
    "8 bit": other_wave(width=1),
    "one hertz": other_wave(rate_hz=1),
    "a megahertz": other_wave(rate_hz=1_000_000),
    "no samples": other_wave(samples=b""),
    "more behind it": WAVE + b"more",
    "a claim": WAVE[:40] + b"\xff\xff\xff\x7f" + WAVE[44:],
    "too long": encode_wave(np.zeros(4_000_000, np.float32), RATE),
}
WHOLE = {
    "nothing": b"",
    "text": b"x" * 100_000,
    "half": GOOD[: len(GOOD) // 2],
    "cut": GOOD[:-1],
    "comment": GOOD[:-2] + b"\4\0evil",
    "compressed": made((named(WAVE), WAVE), compression=zipfile.ZIP_DEFLATED),
    "changed": GOOD.replace(WAVE[100:108], b"\0" * 8),
    "a long list": GOOD[:-10] + struct.pack("<I", 2**31 - 1) + GOOD[-6:],
    "a list elsewhere": GOOD[:-6] + struct.pack("<I", 2**31 - 1) + GOOD[-2:],
    "a large zip": GOOD[:-22] + b"PK\6\7" + struct.pack("<IQI", 0, 0, 1) + GOOD[-22:],
    "twice": made((named(WAVE), WAVE)).replace(b"auricle-clips.json", named(WAVE)[:18].encode()),
}


@pytest.fixture
def edge(tmp_path, capsys):
    return EdgeCommands(tmp_path, capsys)


@pytest.fixture
def refused(tmp_path, edge):
    """Have a file taken in that shall be refused; return why it is, once it is sure that nothing of it stays."""
    (tmp_path / "device").mkdir()
    device = Device(tmp_path / "device", find_bundle("base"))
    edge.config = device.folder / "edge.toml"
    path = tmp_path / "evil.zip"

    def take(data):
        path.write_bytes(data)
        said = edge("clips", "import", path, status=1)
        assert len(said.splitlines()) == 1, said
        assert "\x1b" not in said
        assert len(said) < 2000
        assert [one for one in device.clips.rglob("*") if one.name != ".lock"] == []
        assert device.state.acts.all() == []
        assert sorted(one.name for one in tmp_path.iterdir()) == ["device", "evil.zip"]
        return said

    return take


def test_what_the_attacks_begin_with_is_such_a_file(tmp_path, edge):
    device = Device(tmp_path, find_bundle("base"))
    (tmp_path / "clips.zip").write_bytes(GOOD)
    edge("clips", "import", tmp_path / "clips.zip")
    assert (device.clips / "bell" / named(WAVE).rpartition("/")[2]).read_bytes() == WAVE


def test_a_name_leads_to_a_label_and_nowhere_else(refused):
    for name in NAMES:
        refused(made((named(WAVE), WAVE), (name.format(named(WAVE).rpartition("/")[2]), WAVE)))


def test_a_document_says_what_it_may(refused):
    for document in DOCUMENTS.values():
        refused(made((named(WAVE), WAVE), document=document))


def test_a_clip_is_a_clip_by_its_very_bytes(refused):
    for data in SOUNDS.values():
        refused(made((named(WAVE), WAVE), (named(data), data)))
    refused(made(("takes/bell/0123456789abcdef.wav", WAVE)))


def test_a_file_is_whole_and_holds_what_it_says(refused):
    for data in WHOLE.values():
        refused(data)


def test_many_entries_of_the_same_bytes_are_counted_each(refused):
    entries = [(named(WAVE, f"takes/a{number}"), b"") for number in range(20_001)]
    assert "too much" in refused(made(*entries))


def test_links_are_files_like_any_other(refused):
    link = zipfile.ZipInfo(named(b"/etc/passwd"))
    link.external_attr = 0o120777 << 16
    buffer = io.BytesIO(made())
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr(link, b"/etc/passwd")
    refused(buffer.getvalue())


def test_one_that_is_larger_than_all_clips_may_be_is_not_read(tmp_path, edge):
    Device(tmp_path, find_bundle("base"), clips="quota_mb = 1")
    path = tmp_path / "large.zip"
    with path.open("wb") as file:
        file.truncate(200_000_000)
    assert "at most 21.0 MB can be taken in" in edge("clips", "import", path, status=1)


def test_the_page_gives_such_a_file_takes_it_and_refuses_others(tmp_path):
    page = OwnerPage(EdgeDaemon(tmp_path, find_bundle("base"), "[clips]\nquota_mb = 1\n").config)
    clips = tmp_path / "state" / "clips"
    try:
        with httpx.Client(base_url=page.url, timeout=180) as client:
            token = re.search(r'csrf-token" content="(\w+)"', client.get("/sounds").text)[1]
            own = {"Origin": page.url, "X-CSRF-Token": token}
            assert client.get("/sounds/export").status_code == 409  # there is nothing yet
            for data in (WHOLE["changed"], made(("../../x.wav", WAVE)), b"x" * 1000):
                answer = client.post("/sounds/import", content=data, headers=own)
                assert (answer.status_code, str(tmp_path) in answer.text) == (409, False)
            assert client.post("/sounds/import", content=GOOD).status_code == 403
            assert not list(clips.rglob("*.wav"))
            assert "1 clip stored" in client.post("/sounds/import", content=GOOD, headers=own).json()["message"]
            (path,) = clips.rglob("*.wav")
            with zipfile.ZipFile(io.BytesIO(client.get("/sounds/export").content)) as archive:
                assert archive.read(named(WAVE)) == path.read_bytes() == WAVE
            with contextlib.suppress(httpx.WriteError, httpx.RemoteProtocolError, httpx.ReadError):
                large = client.post("/sounds/import", content=b"x" * 22_000_000, headers=own)
                assert (large.status_code, "more than 21 MB" in large.text) == (409, True)
            assert client.post("/teach/discard", data={"take": "1"}, headers=own).status_code == 409  # nobody records
    finally:
        page.end()
