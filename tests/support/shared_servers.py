"""Three servers of one fleet on a PostgreSQL and an S3 interface, devices that go on meanwhile, and what disturbs them.

Each server reaches the database and the store by links of its own, which can be cut; it keeps its port when it starts
again. Devices speak by the client of real ones, at whichever server answers.
"""

import contextlib
import random
import re
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import httpx
import psycopg

from aggregator_server.rounds.replies import describe_round, list_rounds
from aggregator_server.store.location import Location
from aggregator_server.store.opening import open_store
from fleet_protocol.client.identity import Identity
from fleet_protocol.client.server_client import ServerClient
from fleet_protocol.errors import UnreachableError
from fleet_protocol.messages.rest import Learned
from fleet_protocol.numbers.tensors import digest
from tests.support.aggregator_process import ADMIN, TOKENS, Aggregator, SharingDevice, public_set, tiny_bundle
from tests.support.core_fleet import SAMPLES, CoreFleet
from tests.support.desk import free_port
from tests.support.faulty_state import Link
from tests.support.power_cut import descendants, send_all
from tests.support.state_servers import BUCKET

CLASSES = ("c0", "c1", "c2", "c3")
SERVERS = 3
PLANS = ({"strategy": "zero_shot"}, {"strategy": "fedavg"})
# Between being asked and uploading, in seconds at most: so that rounds are open most of the time.
TRAINING_S = 0.6


class Member(SharingDevice):
    """A device that takes part in rounds of either kind, at whichever server answers."""

    def arrays(self, work, samples):
        if work["plan"]["local"]["name"] == "zero_shot":
            return super(SharingDevice, self).arrays(work, samples)
        return super().arrays(work, samples)

    def live(self, urls, ending, receipts):
        """Learn and upload until the end; note what every receipt is for."""
        rng = random.Random(self.number)
        while not ending.is_set():
            with (
                contextlib.closing(ServerClient(rng.choice(urls), Identity(self.device_id, self.secret))) as client,
                contextlib.suppress(UnreachableError),
            ):
                while not ending.is_set():
                    self._go_on(client, rng, receipts)
            ending.wait(0.1)

    def _go_on(self, client, rng, receipts):
        work = client.work(2.0)
        if work is None:
            return
        if work.kind == "learn":
            client.learned(Learned(work.round_id, personalised=work.fine_tune))
            return
        time.sleep(rng.uniform(0, TRAINING_S))
        data = self.upload(asdict(work), SAMPLES)
        receipt = client.upload(work.round_id, data, lambda: None)
        assert receipt.sha256 == digest(data)
        receipts[work.round_id, self.device_id] = receipt.sha256


class SharedState:
    """Where the servers' state is, and the links by which each reaches it."""

    def __init__(self, postgres, s3):
        self.postgres, self.s3, self.name = postgres, s3, postgres.new()
        self.databases = [Link(postgres.port) for _ in range(SERVERS)]
        self.stores = [Link(s3.port) for _ in range(SERVERS)]

    def options(self, number):
        url = self.postgres.url(self.name).replace(f":{self.postgres.port}/", f":{self.databases[number].port}/")
        return ["--database", url, "--store", f"s3://{BUCKET}/{self.name}"]

    def environment(self, number):
        return self.s3.environment | {"AWS_ENDPOINT": f"http://127.0.0.1:{self.stores[number].port}"}

    def location(self, folder):
        return Location(folder, self.postgres.url(self.name), f"s3://{BUCKET}/{self.name}")

    def token(self):
        """Return the token of the lease that was given last; 0 before, and while the database does not say."""
        try:
            return self.postgres.ask(self.name, "SELECT token FROM lease")[0][0]
        except psycopg.Error:
            return 0

    def close(self):
        for link in (*self.databases, *self.stores):
            link.mend()
            link.close()


class SharedServers:
    """The servers and the devices.

    Attributes:
        receipts: (Round, device) -> digest of the upload that it has a receipt for.
        failovers: (What was done to the server that moved rounds, seconds until another one had the lease).
    """

    def __init__(self, folder: Path, state: SharedState, devices=3):
        self.state = state
        self.servers = [self._server(folder / f"server-{number}", number) for number in range(SERVERS)]
        self.servers[0].start()
        with ThreadPoolExecutor() as threads:
            list(threads.map(Aggregator.start, self.servers[1:]))
        self.devices = [Member(number, CLASSES) for number in range(1, devices + 1)]
        self.receipts, self.failovers = {}, []
        with self.servers[0].client() as admin:
            admin.put("/v1/public-set", content=public_set(SAMPLES).pack()).raise_for_status()
            admin.put("/v1/model", content=tiny_bundle()).raise_for_status()
        self.servers[0].enrol(*self.devices)

    def _server(self, folder, number):
        options = [*self.state.options(number), "--port", str(free_port())]
        return Aggregator(folder, *options, tokens=TOKENS | self.state.environment(number))

    @contextlib.contextmanager
    def busy(self, plans):
        """Have rounds opened and devices take part in them; at the end, wait until the last one is over."""
        urls, ending, last = [server.url for server in self.servers], threading.Event(), threading.Event()
        with ThreadPoolExecutor(len(self.devices) + 1) as threads:
            living = [threads.submit(device.live, urls, ending, self.receipts) for device in self.devices]
            operator = threads.submit(self._operate, urls, plans, living, last)
            try:
                yield
                last.set()
                operator.result(300)
            finally:
                last.set()
                ending.set()
            for device in living:
                device.result()

    def _operate(self, urls, plans, living, last):
        """Open one round after the other, each once every device has learned from the one before."""
        end, known = time.monotonic(), -1
        while True:
            rounds = ask(urls, "GET", "/v1/rounds")
            newest = rounds[0] if rounds else None
            over = newest is None or (newest["state"], newest["learned"]) == ("done", len(self.devices))
            assert newest is None or newest["state"] != "failed", newest
            if over and last.is_set() and len(rounds) >= len(plans):
                return
            if over:
                plan = plans[len(rounds) % len(plans)] | {"seed": len(rounds), "quorum": 1.0, "deadline_s": 36_000}
                ask(urls, "POST", "/v1/rounds", json={"selection": {"seen_within_s": 0}} | plan)
            if len(rounds) > known:
                end, known = time.monotonic() + 240, len(rounds)
            assert time.monotonic() < end, f"no round after {newest}"
            for device in living:
                if device.done():
                    device.result()  # why it gave up
            time.sleep(0.1)

    def leader(self):
        """Wait for the server that moves rounds; return its number, and the token of its lease."""
        end = time.monotonic() + 120
        while True:
            token = self.state.token()
            said = re.compile(rf"this server moves the rounds now, with token {token}\b")
            for number, server in enumerate(self.servers):
                if said.search(server.log()):
                    return number, token
            assert time.monotonic() < end, "nobody moves rounds"
            time.sleep(0.02)

    def kill(self, number):
        """SIGKILL; it starts again once another one moves rounds. Here and below, None is the one that moves them."""
        with self.failover("kill", number) as number:
            self.servers[number].kill()
        self.servers[number].start()

    def pause(self, number, seconds):
        """SIGSTOP, of its computing processes too, for longer than the lease."""
        paused, ends = [], time.monotonic() + seconds
        try:
            with self.failover("pause", number) as number:
                process = self.servers[number].process.pid
                paused += [process, *descendants(process)]
                send_all(paused, signal.SIGSTOP)
            time.sleep(max(0.0, ends - time.monotonic()))
        finally:
            send_all(paused, signal.SIGCONT)

    def cut_database(self, number, seconds, *, silently):
        """Cut one server from the database, for longer than the lease."""
        ends = time.monotonic() + seconds
        with contextlib.ExitStack() as mending:
            with self.failover("cut from the database", number) as number:
                link = self.state.databases[number]
                mending.callback(link.mend)
                link.hold() if silently else link.cut(after=0)
            time.sleep(max(0.0, ends - time.monotonic()))

    def cut_store(self, number, seconds, *, silently):
        """Cut one server from the store."""
        link = self.state.stores[self.leader()[0] if number is None else number]
        link.hold() if silently else link.cut(after=0)
        time.sleep(seconds)
        link.mend()

    def restart_database(self, number):
        """Stop PostgreSQL, by SIGINT (which aborts what is open) or SIGQUIT (a crash), and start it."""
        self.state.postgres.stop(number)
        self.state.postgres.start()

    @contextlib.contextmanager
    def failover(self, what, number):
        """Do something to a server; where it moved rounds, wait until another one does, and note how long that took."""
        leader, token = self.leader()
        number = leader if number is None else number
        had_lease, began = number == leader, time.monotonic()
        yield number
        while had_lease and self.state.token() <= token:
            assert time.monotonic() < began + 120, f"nobody took the lease over after a {what}"
            time.sleep(0.02)
        if had_lease:
            self.failovers.append((what, time.monotonic() - began))

    def outcomes(self, folder):
        """Return what every round led to, in their order, without what says when."""
        with contextlib.closing(open_store(self.state.location(folder))) as store:
            return [outcome(store, number) for number in range(1, len(list_rounds(store, None, 100_000)) + 1)]

    def require_uploads(self, found):
        """Check that no upload is missing, and that every one with a receipt is the one that counted."""
        uploads = {(number, name): sha for number, one in enumerate(found, 1) for name, sha in one["uploads"]}
        assert uploads.items() >= self.receipts.items()  # where an answer was lost, a device has none
        assert len(uploads) == len(found) * len(self.devices)

    def close(self):
        for server in self.servers:
            server.__exit__()
        self.state.close()


def outcome(store, round_id):
    """Everything that a round led to, without what says when."""
    found = describe_round(store, round_id)
    kept = ("result_public_set", "result_consensus", "result_weights", "betas", "accuracies", "discovery")
    uploads = sorted((one.device_id, one.upload) for one in found.participants)
    asked = {"state": found.summary.state, "plan": (found.summary.strategy, found.plan.seed)}
    return {name: getattr(found, name) for name in kept} | asked | {"uploads": uploads}


def undisturbed(folder, devices, plans):
    """What one process alone, with SQLite and a folder, makes of the same rounds."""
    fleet = CoreFleet(folder, devices)
    with contextlib.closing(fleet.store) as store:
        fleet.publish_model(tiny_bundle())
        found = []
        for number, (strategy, seed) in enumerate(plans, 1):
            (plan,) = [plan for plan in PLANS if plan["strategy"] == strategy]
            fleet.run_round(100.0 * number, seed=seed, quorum=1.0, deadline_s=36_000, **plan)
            found.append(outcome(store, number))
        return found


def ask(urls, method, path, **body):
    """Ask whichever server answers, as an operator who tries the next one; return what it says."""
    end = time.monotonic() + 240
    while True:
        for url in urls:
            with contextlib.suppress(httpx.HTTPError):
                headers = {"Authorization": f"Bearer {ADMIN}"}
                answer = httpx.request(method, url + path, headers=headers, timeout=5, trust_env=False, **body)
                if answer.status_code < 500:
                    assert answer.is_success or answer.json()["error"]["code"] == "round_open", answer.text
                    return answer.json()
        assert time.monotonic() < end, f"no server answers {method} {path}"
        time.sleep(0.1)
