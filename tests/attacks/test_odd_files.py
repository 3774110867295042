"""What lies in a folder of recordings and is none: everybody goes over regular files alone, and names the others."""

import os
import tracemalloc
from pathlib import Path

import httpx
import pytest

from edge_client.audio.recordings import duration_s, read_recording
from edge_client.errors import RecordingError
from fleet_protocol.bundle.ready_bundles import find_bundle
from tests.support.edge_commands import EdgeCommands
from tests.support.owner_page import OwnerPage
from tests.support.sounds import write_clips
from tests.support.taught_device import Device

NOT_UTF8 = os.fsdecode(b"K\xfcche.wav")


def make_odd(folder: Path) -> list[str]:
    """Make whatever a folder can hold besides recordings; return the names that are to be said."""
    (folder / "loop.wav").symlink_to("loop.wav")
    (folder / "dangling.wav").symlink_to("/nonexistent")
    (folder / "zero.wav").symlink_to("/dev/zero")
    os.mkfifo(folder / "fifo.wav")
    (folder / "folder.wav").mkdir()
    (folder / "self").symlink_to(folder)
    (folder / NOT_UTF8).write_bytes(next(folder.glob("0*.wav")).read_bytes())
    return ["loop.wav", "dangling.wav", "zero.wav", "fifo.wav"]


@pytest.fixture
def odd(tmp_path):
    for label in ("yes", "no"):
        write_clips(tmp_path / "rec", label, 4, 1)
    return make_odd(tmp_path / "rec" / "yes")


def test_commands_and_the_page_show_the_clips_beside_odd_files(tmp_path, odd, capsys):
    edge = EdgeCommands(tmp_path, capsys, find_bundle("base_int8"))
    with edge.config.open("a") as file:
        file.write('[recordings]\nfolder = "rec"\n')
    assert "yes" in edge("clips")
    listed = edge("clips", "--label", "yes")
    assert "loop" not in listed
    assert "K\\xfcche" in listed
    with OwnerPage(edge.config) as page:
        for address in ("/", "/sounds", "/teach"):
            answer = httpx.get(page.url + address, timeout=180)
            assert (answer.status_code, "dangling" in answer.text) == (200, False)
        assert "K\\xfcche" in httpx.get(page.url + "/sounds", timeout=180).text
        for digits in (400, 5_000):
            answer = httpx.get(f"{page.url}/heard/detected/{'9' * digits}.wav", timeout=180)
            assert answer.status_code == 404
        page.end()


def test_a_device_learns_from_recordings_beside_odd_files_and_names_them(tmp_path, odd):
    device = Device(tmp_path, find_bundle("base_int8"), recordings='folder = "rec"')
    assert set(device.teach().progress.label_map.labels) == {"yes", "no"}
    lines = [line for line in device.log.splitlines() if line.startswith("left out ")]
    assert {name for name in odd for line in lines if name in line} == set(odd)


def test_a_pipe_is_refused_as_a_recording_by_whoever_names_it(tmp_path, capsys):
    edge = EdgeCommands(tmp_path, capsys, find_bundle("base_int8"))
    os.mkfifo(tmp_path / "fifo.wav")
    said = edge("import", tmp_path / "fifo.wav", "--label", "yes", status=1)
    assert "fifo.wav" in said
    with pytest.raises(RecordingError, match="no regular file"):
        duration_s(tmp_path / "fifo.wav")
    os.mkfifo(tmp_path / "0123456789abcdef.wav")  # as a clip is called by its content
    with pytest.raises(RecordingError, match="no regular file"):
        read_recording(tmp_path / "0123456789abcdef.wav", 16_000)


def test_a_large_file_that_is_called_like_a_clip_does_not_fill_the_memory(tmp_path):
    path = tmp_path / "0123456789abcdef.wav"
    with path.open("wb") as file:
        file.truncate(200_000_000)
    tracemalloc.start()
    with pytest.raises(RecordingError, match="its name is the digest of what was recorded"):
        read_recording(path, 16_000)
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()
