"""A data set is fetched whole or not at all, and only when asked."""

import hashlib
import io
import os
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fleet_simulator.cli import main
from fleet_simulator.data.recording_layouts import speech_commands

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
    """Serves one file on a free port; ``refuses`` are status codes to answer first, ``asked`` counts requests."""

    def __init__(self, content):
        self.content, self.refuses, self.asked = content, [], 0
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                owner.asked += 1
                if owner.refuses:
                    self.send_error(owner.refuses.pop(0))
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(owner.content)))
                self.end_headers()
                self.wfile.write(owner.content)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/archive.tar.gz"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr("pooch.core.time.sleep", lambda _: None)


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
    assert server.asked == 1
    assert "is there already" in capsys.readouterr().out


def test_a_busy_server_is_asked_again_and_a_lost_one_is_named(tmp_path, server, capsys):
    server.refuses = [503, 503]
    assert run(server, tmp_path / "words") == 0
    assert_unpacked(tmp_path / "words")
    server.close()
    assert run(server, tmp_path / "others") == 1
    assert "--url" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["words"]


def test_another_file_than_expected_is_refused_and_removed(tmp_path, server, capsys):
    assert run(server, tmp_path / "words", "0" * 64) == 1
    assert list(tmp_path.iterdir()) == []
    message = capsys.readouterr().err
    assert hashlib.sha256(server.content).hexdigest() in message
    assert "0" * 64 in message


def test_a_missing_file_a_wrong_address_and_a_wrong_digest_are_named(tmp_path, server, capsys):
    server.refuses = [404] * 4
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
        (archive_of(FILES | {"../escaped.wav": b"x"}), "outside the destination"),
        (archive_of(FILES | {"yes/../../escaped.wav": b"x"}), "outside the destination"),
        (archive_of(FILES, link="/etc/passwd"), "absolute path"),
        (archive_of(FILES)[:-5000], "cannot be unpacked"),
        (b"hello", "cannot be unpacked"),
    ],
    ids=["above", "through", "link", "cut", "none"],
)
def test_an_archive_that_would_write_elsewhere_and_a_damaged_one_are_refused(tmp_path, content, says, capsys):
    server = Server(content)
    assert run(server, tmp_path / "in" / "words") == 1
    assert says in capsys.readouterr().err
    assert not (tmp_path / "in" / "words").exists()
    assert [path.suffix for path in (tmp_path / "in").iterdir()] == [".part"]
    server.close()
