"""The commands of docs/scaling.md, but for containers, typed with a real PostgreSQL and a real S3 interface."""

import json
import os
import re
import shutil
import ssl
import sys

import httpx
import pytest

from tests.support.aggregator_process import Aggregator, Fleet
from tests.support.checkout import ROOT
from tests.support.desk import Desk
from tests.support.state_servers import BUCKET, PASSWORD

pytestmark = pytest.mark.slow

BLOCK = re.compile(r"^ *```sh\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
PROGRAM = "from aggregator_server import cli; raise SystemExit(cli.main())"


class Reader(Desk):
    """Somebody who types what the page shows, with addresses and folders of his own."""

    def __init__(self, folder, database, store):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AURICLE_")}
        environment["PGPASSWORD"] = PASSWORD
        super().__init__(folder, lambda _: [sys.executable, "-c", PROGRAM], environment)
        self._own = {"postgresql://auricle@db.example/auricle": database, "s3://bucket/fleet": store}

    def own(self, line):
        for shown, here in self._own.items():
            line = line.replace(shown, here)
        return line

    def enter(self, line, folder="DIR"):
        """Type a line; return its output, or of a server a client with the first token of a folder of the page."""
        line = self.own(line)
        if not line.startswith("auricle-aggregator run"):
            done = self.type(line)
            assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
            return done.stdout
        log = f"{len(self._running)}.log"
        self.leave_running(f"{line} --port 0", log)
        self.wait_for(log, '"url"')
        url = re.search(r'"url": "(.*?)"', (self.folder / log).read_text())[1].replace("0.0.0.0", "127.0.0.1")
        token = json.loads((self.folder / folder / "tokens.json").read_text())["admin"]
        authority = self.folder / folder / "tls/authority.pem"
        verify = ssl.create_default_context(cafile=authority) if url.startswith("https") else True
        return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, verify=verify, timeout=60)


def commands():
    """The lines of each block, where one goes on over several lines as one."""
    text = (ROOT / "docs/scaling.md").read_text().split("\n## In containers\n")[0]
    return [re.sub(r"\\\n\s*", "", block).strip().splitlines() for block in BLOCK.findall(text)]


def test_a_fleet_goes_there_by_the_page_gets_a_second_server_and_comes_back(tmp_path, states, monkeypatch):
    for name, value in states.s3.environment.items():
        monkeypatch.setenv(name, value)
    (move, run), (back,), (several,) = commands()
    with Aggregator(tmp_path / "DIR", tokens={}) as server:
        server.start()
        token = json.loads((tmp_path / "DIR/tokens.json").read_text())["admin"]
        fleet = Fleet(server, [])
        fleet.admin.headers["Authorization"] = f"Bearer {token}"
        published = fleet.publish().raise_for_status().json()
        assert server.stop() == 0
    database = states.postgres.new()
    reader = Reader(tmp_path, states.postgres.url(database), f"s3://{BUCKET}/{database}")

    def serves(client):
        with client:
            assert client.get("/v1/public-set").raise_for_status().json() == published

    try:
        reader.enter(move)
        serves(reader.enter(run))
        reader.close()
        first = reader.enter(several)
        shutil.copytree(tmp_path / "DIR/tls", tmp_path / "DIR2/tls")
        shutil.copy2(tmp_path / "DIR/tokens.json", tmp_path / "DIR2/tokens.json")
        second = reader.enter(several.replace("--data DIR", "--data DIR2"))
        serves(first)
        serves(second)
        reader.close()
        reader.enter(back)
        serves(reader.enter("auricle-aggregator run --data NEW"))
    finally:
        reader.close()
