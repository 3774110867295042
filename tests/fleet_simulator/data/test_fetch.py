"""A data set is fetched whole or not at all, over cut connections, from servers of all kinds, and only when asked."""

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from edge_client.storage.locks import take_lock
from fleet_simulator.cli import main
from fleet_simulator.data.fetch import DATA_SETS, download
from fleet_simulator.data.recording_layouts import speech_commands
from fleet_simulator.errors import FetchError

FILES = {"./yes/0a1b2c3d_nohash_0.wav": os.urandom(400_000), "./no/0a1b2c3d_nohash_1.wav": os.urandom(300_000)}


def archive_of(files, *, link=None):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        if link:
            member = tarfile.TarInfo("./link")
            member.type, member.linkname = tarfile.SYMTYPE, link
            tar.addfile(member)
    return buffer.getvalue()


class Server:
    """Serves one file on a free port.

    Attributes:
        cut_after: bytes of an answer after which the connection is cut; None: never.
        ranges: whether it knows about ranges.
        length: said in place of the true length.
        refuses: status codes to answer first, one by one.
        asked: the Range header of every request so far.
    """

    def __init__(self, content):
        self.content, self.cut_after, self.ranges, self.length = content, None, True, None
        self.refuses, self.asked = [], []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                owner.answer(self)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/archive.tar.gz"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, request):
        wanted = request.headers["Range"]
        self.asked.append(wanted)
        if self.refuses:
            request.send_error(self.refuses.pop(0))
            return
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and self.ranges else 0
        if start and start >= len(self.content):
            request.send_error(416)
            return
        request.send_response(206 if start else 200)
        if start:
            request.send_header("Content-Range", f"bytes {start}-{len(self.content) - 1}/{len(self.content)}")
        body = self.content[start:]
        request.send_header("Content-Length", str(self.length or len(body)))
        request.end_headers()
        request.wfile.write(body[: self.cut_after])
        request.close_connection = True

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server():
    server = Server(archive_of(FILES))
    yield server
    server.close()


def run(server, folder, digest=None):
    digest = digest or hashlib.sha256(server.content).hexdigest()
    return main(["fetch", "speech_commands", "--output", str(folder), "--url", server.url, "--sha256", digest])


def assert_unpacked(folder):
    assert sorted(path.name for path in folder.parent.iterdir()) == [folder.name]  # no leftovers
    for name, content in FILES.items():
        assert (folder / name).read_bytes() == content
    assert {(entry.label, entry.speaker) for entry in speech_commands(folder)} == {
        ("yes", "0a1b2c3d"),
        ("no", "0a1b2c3d"),
    }


def test_an_archive_is_unpacked_and_not_fetched_twice(tmp_path, server, capsys):
    folder = tmp_path / "sets" / "words"
    assert run(server, folder) == 0
    assert_unpacked(folder)
    assert run(server, folder) == 0
    assert len(server.asked) == 1
    assert "is there already" in capsys.readouterr().out


def test_a_connection_that_is_cut_goes_on_where_it_stopped(tmp_path, server):
    server.cut_after = 150_000
    assert run(server, tmp_path / "words") == 0
    assert_unpacked(tmp_path / "words")
    assert server.asked == [None, *(f"bytes={n}-" for n in range(150_000, len(server.content), 150_000))]


@pytest.mark.parametrize(
    ("there", "ranges", "asked"), [(123_456, True, "bytes=123456-"), (None, True, None), (123_456, False, None)]
)
def test_a_later_command_goes_on_with_what_is_there_or_anew_where_a_server_knows_no_ranges(
    tmp_path, server, there, ranges, asked
):
    server.ranges = ranges
    digest = hashlib.sha256(server.content).hexdigest()
    (tmp_path / f"words-{digest[:12]}.part").write_bytes(server.content[:there])
    (tmp_path / ".words-killed").mkdir()
    assert run(server, tmp_path / "words") == 0
    assert_unpacked(tmp_path / "words")
    assert asked in (None, server.asked[-1])


def test_a_busy_server_is_asked_again_and_a_lost_one_leaves_what_came(tmp_path, server):
    server.refuses = [503, 503]
    digest, target = hashlib.sha256(server.content).hexdigest(), tmp_path / "part"
    download(server.url, target, digest, lambda have, total: None, 0.0)
    assert target.read_bytes() == server.content
    target.write_bytes(server.content[:1000])
    server.close()
    with pytest.raises(FetchError, match=r"1,000 bytes are in .*part, the same command goes on"):
        download(server.url, target, digest, lambda have, total: None, 0.0)
    assert target.stat().st_size == 1000


def test_another_file_than_expected_is_refused_and_removed(tmp_path, server, capsys):
    assert run(server, tmp_path / "words", "0" * 64) == 1
    assert list(tmp_path.iterdir()) == []
    message = capsys.readouterr().err
    assert hashlib.sha256(server.content).hexdigest() in message
    assert "instead of 000" in message


def test_a_missing_file_a_wrong_address_and_a_wrong_digest_are_named(tmp_path, server, capsys):
    server.refuses = [404]
    assert run(server, tmp_path / "words") == 1
    assert "404" in (message := capsys.readouterr().err)
    assert "--url" in message
    assert run(server, tmp_path / "words", "abc") == 1
    assert "64 hex digits" in capsys.readouterr().err
    assert main(["fetch", "speech_commands", "--output", str(tmp_path / "words"), "--url", "ftp://x"]) == 1
    assert "http://" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (archive_of(FILES | {"../escaped.wav": b"x"}), "no plain file inside it"),
        (archive_of(FILES | {"/tmp/auricle-escaped.wav": b"x"}), "no plain file inside it"),
        (archive_of(FILES | {"yes/../../escaped.wav": b"x"}), "no plain file inside it"),
        (archive_of(FILES, link="/etc/passwd"), "'./link' is no plain file"),
        (archive_of(FILES)[:-5000], "damaged"),
        (b"hello", "damaged"),
    ],
    ids=["above", "absolute", "through", "link", "cut", "none"],
)
def test_an_archive_that_would_write_elsewhere_and_a_damaged_one_are_refused(tmp_path, content, says, capsys):
    server = Server(content)
    assert run(server, tmp_path / "in" / "words") == 1
    assert says in capsys.readouterr().err
    assert not (tmp_path / "in" / "words").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    server.close()


def test_a_full_disk_is_told_before_and_while_it_fills(tmp_path, server, capsys):
    server.length = 1 << 60
    assert run(server, tmp_path / "words") == 1
    assert "1,152,921,504,606,846,976 bytes more" in capsys.readouterr().err
    server.length = None
    digest = hashlib.sha256(server.content).hexdigest()
    command = f"{sys.executable} -m fleet_simulator.cli fetch speech_commands --output words --url {server.url}"
    limited = f"ulimit -f 200; exec {command} --sha256 {digest}"  # files of at most 200 KiB
    environment = os.environ | {"PYTHONPATH": str(Path.cwd())}
    done = subprocess.run(
        ["bash", "-c", limited], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "no space is left for words-" in done.stderr
    assert run(server, tmp_path / "words") == 0
    assert server.asked[-1] == "bytes=204800-"
    assert_unpacked(tmp_path / "words")


def test_two_commands_do_not_write_the_same_file(tmp_path, server, capsys):
    digest = hashlib.sha256(server.content).hexdigest()
    lock = take_lock(tmp_path / f"words-{digest[:12]}.part")
    assert run(server, tmp_path / "words") == 1
    assert "already" in capsys.readouterr().err
    os.close(lock)


def test_the_official_archive_is_that_of_version_2():
    official = DATA_SETS["speech_commands"]
    assert official.url.endswith("speech_commands_v0.02.tar.gz")
    assert official.sha256.startswith("af14739e")
