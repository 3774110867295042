"""A real PostgreSQL and a real S3 interface (moto's server) as processes, and state in them for tests.

A file that says ``pytestmark = pytest.mark.scaled`` tests what is there with these alone: each data
folder that one of its tests names has a database and a prefix of its own. Both servers belong to the session that
started them.
"""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.desk import free_port

if TYPE_CHECKING:  # a board, where the edge's tests run too, has no SQLAlchemy
    from aggregator_server.store.location import Location

BUCKET, PASSWORD = "fleets-of-the-tests", "p@ss/w:rd%of tests"
_BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin")) if Path("/usr/lib/postgresql").is_dir() else []
_NEEDED = ("obstore", "psycopg", "moto", "flask")
_KEYS = {"AWS_ACCESS_KEY_ID": "key-of-the-tests", "AWS_SECRET_ACCESS_KEY": "secret-key-of-the-tests"}
_FAST = ("fsync=off", "full_page_writes=off", "shared_buffers=16MB", "max_connections=300", "max_wal_size=200MB")


def missing() -> str | None:
    """Why neither server can run here; None where both can."""
    packages = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if packages:
        return f"not installed: {', '.join(packages)} (the extra `dev`)"
    return None if _BINARIES else "PostgreSQL is not installed (apt install postgresql)"


class Server:
    """A process with a folder of its own, on a free port."""

    ending = signal.SIGINT  # of a database: aborts every transaction; SIGKILL is a crash

    def __init__(self, prefix: str) -> None:
        self.folder, self.port = Path(tempfile.mkdtemp(prefix=prefix)), free_port()
        self.process: subprocess.Popen | None = None

    def run(self, command: list[str], answers: Callable[[], bool], **options: object) -> None:
        """Start it, and wait until it answers."""
        log = self.folder / "log"
        with log.open("a") as file:
            self.process = subprocess.Popen(command, stdout=file, stderr=file, cwd=self.folder, **options)
        end = time.monotonic() + 120
        while not answers():
            assert self.process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.02)

    def stop(self, number: signal.Signals | None = None) -> None:
        if self.process is not None:
            self.process.send_signal(number or self.ending)
            self.process.wait(120)
            self.process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)


class PostgresServer(Server):
    """A cluster of its own in a folder, under a user of its own where root runs the tests."""

    def __init__(self, *settings: str) -> None:
        super().__init__("auricle-pg-")
        self.settings = settings
        self._as: dict[str, object] = {}
        if os.geteuid() == 0:
            user = pwd.getpwnam("nobody")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        word = self.folder / "password"
        word.write_text(PASSWORD)
        word.chmod(0o644)
        options = ["--auth=scram-sha-256", "-U", "auricle", f"--pwfile={word}", "-N", "-E", "UTF8", "--locale=C.UTF-8"]
        command = [str(_BINARIES[-1] / "initdb"), "-D", str(self.folder / "data"), *options]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, check=False, **self._as)
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        command = [str(_BINARIES[-1] / "postgres"), "-D", str(self.folder / "data"), "-p", str(self.port)]
        settings = ("listen_addresses=127.0.0.1", f"unix_socket_directories={self.folder}", *_FAST, *self.settings)
        command += [word for setting in settings for word in ("-c", setting)]
        self.run(command, self._answers, **self._as)

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url("postgres"), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def url(self, database: str) -> str:
        from urllib.parse import quote

        return f"postgresql://auricle:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/{database}"

    def ask(self, database: str, *statements: str) -> list[tuple]:
        """Run statements; return the rows of the last one."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            rows: list[tuple] = []
            for statement in statements:
                cursor = connection.execute(statement)
                rows = cursor.fetchall() if cursor.description else []
            return rows

    def new(self, template: str | None = None) -> str:
        """Make a database; return its name."""
        name = f"fleet_{secrets.token_hex(6)}"
        self.ask("postgres", f"CREATE DATABASE {name}" + (f" TEMPLATE {template}" if template else ""))
        return name


class S3Server(Server):
    """moto's server: S3 over HTTP, in memory."""

    ending = signal.SIGKILL

    def __init__(self) -> None:
        super().__init__("auricle-s3-")

    def start(self) -> None:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        self.run(command, lambda: self._ask("GET", "/moto-api/") is not None, env=os.environ | _KEYS)
        assert self._ask("PUT", f"/{BUCKET}") == 200

    def _ask(self, method: str, path: str) -> int | None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            try:
                connection.request(method, path)
                return connection.getresponse().status
            except OSError:
                return None

    @property
    def environment(self) -> dict[str, str]:
        where = {"AWS_ENDPOINT": f"http://127.0.0.1:{self.port}", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
        return _KEYS | where


class States:
    """Databases and prefixes for data folders: the same for the same folder."""

    def __init__(self, postgres: PostgresServer, s3: S3Server) -> None:
        self.postgres, self.s3 = postgres, s3
        self._known: dict[Path, Location] = {}
        self._template: str | None = None

    def of(self, folder: Path) -> Location:
        from aggregator_server.store.location import Location

        if folder not in self._known:
            name = self.postgres.new(self._template_of_tables())
            self._known[folder] = Location(folder, self.postgres.url(name), f"s3://{BUCKET}/{name}")
        return self._known[folder]

    def _template_of_tables(self) -> str:
        """A database with the tables of a fleet: to copy it takes a fraction of the time."""
        from aggregator_server.store.location import Location
        from aggregator_server.store.opening import open_store

        if self._template is None:
            self._template = self.postgres.new()
            with tempfile.TemporaryDirectory() as folder:
                open_store(Location(Path(folder), self.postgres.url(self._template))).close()
        return self._template


def name_of(location: Location) -> str:
    """The database of a location that :class:`States` made."""
    return location.store.rpartition("/")[2]


_current: list[States] = []


def located(folder: Path) -> Path | Location:
    """Where the state of a data folder is in the test that runs: elsewhere, where it is marked so."""
    return _current[-1].of(folder) if _current else folder


def options_of(folder: Path) -> list[str]:
    """Options of a command that say the same."""
    found = located(folder)
    return [] if isinstance(found, Path) else ["--database", found.database, "--store", found.store]


@pytest.fixture(scope="session")
def states() -> Iterator[States]:
    why = missing()
    if why:
        pytest.skip(why)
    with contextlib.ExitStack() as running:
        postgres, s3 = PostgresServer(), S3Server()
        running.callback(s3.remove)
        running.callback(postgres.remove)
        postgres.start()
        s3.start()
        yield States(postgres, s3)


@pytest.fixture(autouse=True, scope="module")
def state_elsewhere(request: pytest.FixtureRequest) -> Iterator[None]:
    """Put the state of every data folder of a module's tests elsewhere, where the module is marked so."""
    marks = getattr(request.module, "pytestmark", [])
    if not any(mark.name == "scaled" for mark in (marks if isinstance(marks, list) else [marks])):
        yield
        return
    states = request.getfixturevalue("states")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in states.s3.environment.items():
            patch.setenv(name, value)
        _current.append(states)
        yield
        _current.pop()
