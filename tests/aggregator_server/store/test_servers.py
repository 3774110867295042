"""Servers of one fleet at a real PostgreSQL: the lease of who moves rounds, and what they tell each other."""

import contextlib
import threading

import pytest
from sqlalchemy import select

from aggregator_server.errors import LeaseLostError, StateAwayError
from aggregator_server.store.location import Location
from aggregator_server.store.opening import open_store
from aggregator_server.store.postgres import servers
from aggregator_server.store.tables import BlobRow
from tests.support.edge_process import wait_for
from tests.support.state_servers import name_of

pytestmark = pytest.mark.scaled


@pytest.fixture
def join(tmp_path, place, monkeypatch):
    """Start a server's store, with what it heard of others; all are closed at the end.

    No lease is over before somebody ends it, however long this machine stands still.
    """
    monkeypatch.setattr(servers, "_LEASE_S", 600.0)
    monkeypatch.setattr(servers, "_START_S", 180.0)
    with contextlib.ExitStack() as running:

        def start(name):
            location, heard = Location(tmp_path / name, place.database, place.store), []
            store = running.enter_context(contextlib.closing(open_store(location)))
            store.join(heard.append)
            return store, heard

        yield start


def token_of(store):
    with store.leading() as token:
        return token


def write(store, name):
    with store.writing() as session:
        session.add(BlobRow(sha256=name * 64, kind="model"))


def names(store):
    with store.reading() as session:
        return [name[0] for name in session.scalars(select(BlobRow.sha256).order_by(BlobRow.sha256))]


def expire(states, place):
    """End the present lease, as if its server had been paused for longer."""
    states.postgres.ask(
        name_of(place), "UPDATE lease SET holder = 'another', token = token + 1, expires_at = now() + interval '1 hour'"
    )


def test_one_server_has_the_lease_and_the_next_gets_it_at_once_when_it_ends(join):
    first, second = join("a")[0], join("b")[0]
    assert (token_of(first), token_of(second)) == (1, None)
    first.leave()
    assert token_of(first) is None
    wait_for(lambda: token_of(second) == 2)  # without waiting for its end


def test_a_step_whose_lease_went_to_another_server_writes_nothing(join, states, place):
    store, _ = join("a")
    with store.leading() as token:
        assert token == 1
        write(store, "a")
        expire(states, place)
        with pytest.raises(LeaseLostError, match="token 1"):
            write(store, "b")
    write(store, "c")  # a request's, which needs no lease
    wait_for(lambda: token_of(store) is None)
    assert names(store) == ["a", "c"]


def test_a_transaction_that_a_server_left_open_is_ended_by_the_next_holder_of_the_lease(join, states, place):
    store, _ = join("a")
    others = []

    def go_on():
        other, _ = join("b")
        others.append(other)
        write(other, "b")

    def paused():
        with store.leading(), store.writing() as session:
            session.add(BlobRow(sha256="a" * 64, kind="model"))
            session.flush()
            running = store._servers  # what stops with a server that is paused
            running._ending.set()
            running._thread.join()
            holder = f"UPDATE lease SET holder = '{store.database.server}', expires_at = now()"
            states.postgres.ask(name_of(place), holder)
            thread = threading.Thread(target=go_on)
            thread.start()
            thread.join(180)
            assert token_of(others[0]) == 2
            session.add(BlobRow(sha256="c" * 64, kind="model"))

    with pytest.raises(StateAwayError, match="does not answer as it should"):
        paused()
    assert names(others[0]) == ["b"]


def test_what_one_server_tells_another_hears_once_with_new_caches(join, monkeypatch):
    monkeypatch.setattr(servers, "_TOGETHER_S", 1.0)  # a busy machine takes a while to start the threads
    (first, own), (second, heard) = join("a"), join("b")
    wait_for(lambda: own == ["round"])  # it has the lease
    for _ in range(100):
        first.tell("round")  # it would do it itself
    state = second.state
    threads = [threading.Thread(target=first.tell, args=("work",)) for _ in range(50)]
    for thread in threads:
        thread.start()
    wait_for(lambda: "work" in heard)
    assert second.state is not state
    for thread in threads:
        thread.join()
    told = len(heard)
    assert told < 20
    assert set(heard) == {"work"}
    second.tell("round")
    wait_for(lambda: own == ["round", "round"])


def test_what_was_told_while_the_connection_was_away_is_heard_afterwards(join, states, place):
    first, (second, heard) = join("a")[0], join("b")
    name = name_of(place)
    states.postgres.ask("postgres", f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    its = f"application_name = 'auricle-aggregator {second.database.server}' AND query NOT LIKE '%lock%'"
    try:
        states.postgres.ask("postgres", f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {its}")
        first.tell("work")
    finally:
        states.postgres.ask("postgres", f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    wait_for(lambda: "work" in heard)
    assert token_of(first) == 1
