"""State in PostgreSQL and an object store: what SQLite and a folder promise holds there too."""

import contextlib
import hashlib
import io
import logging
import os
import pickle
import re
import signal
import tarfile
import time

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import IntegrityError

from aggregator_server.cli import main
from aggregator_server.errors import BackupError, BlobError, StartError, StateAwayError
from aggregator_server.fleet.audit import list_entries
from aggregator_server.rounds.replies import describe_round
from aggregator_server.store.blobs import BlobFolder
from aggregator_server.store.data_folder import why_not_meant
from aggregator_server.store.location import Location, locate_by
from aggregator_server.store.opening import alone, open_blobs, open_store, open_tables
from aggregator_server.store.tables import BlobRow, ParticipantRow
from aggregator_server.store.unnamed_blobs import sweep
from aggregator_server.upkeep.backup import back_up, restore
from aggregator_server.upkeep.check import check
from aggregator_server.upkeep.copying import digests_of
from aggregator_server.upkeep.move import move
from tests.support.checkout import ROOT
from tests.support.core_fleet import CoreFleet, between_rounds
from tests.support.private_fleet import PrivateCoreFleet, private_devices
from tests.support.state_servers import BUCKET, PASSWORD, name_of

pytestmark = pytest.mark.scaled
DAY_S = 86_400.0


@pytest.fixture
def store(place):
    with contextlib.closing(open_store(place)) as store:
        yield store


@pytest.fixture
def moved_to(tmp_path, states):
    """A place that is empty, for the state of a data folder in this test's folder."""

    def of(folder):
        name = states.postgres.new()
        return Location(folder, states.postgres.url(name), f"s3://{BUCKET}/{name}")

    return of


def killed(*_):
    raise RuntimeError("killed")


def rows_of(place):
    with contextlib.closing(open_tables(place)) as tables, tables.reading() as session:
        return digests_of(session.connection())


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_cannot_hold_every_name_is_refused_with_the_way_out(states, tmp_path, encoding):
    name = f"narrow_{encoding.lower()}"
    states.postgres.ask("postgres", f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
    place = Location(tmp_path / "data", states.postgres.url(name))
    for look in (why_not_meant, open_store):
        said = f"has the encoding {encoding}.*createdb --encoding UTF8 --template template0"
        with pytest.raises(StartError, match=said) as refused:
            look(place)
        assert PASSWORD not in str(refused.value)


def test_a_blob_is_whole_named_by_its_digest_stored_once_and_can_be_sought_in(store):
    digest = store.blobs.put(b"abc")
    assert digest == hashlib.sha256(b"abc").hexdigest() == store.blobs.put(b"abc")
    assert (store.blobs.read(digest), store.blobs.exists(digest)) == (b"abc", True)
    assert list(store.blobs.digests()) == [digest]
    assert pickle.loads(pickle.dumps(store.blobs)).read(digest) == b"abc"
    store.blobs.remove(digest)
    store.blobs.remove(digest)
    assert (store.blobs.exists(digest), list(store.blobs.digests())) == (False, [])
    with pytest.raises(BlobError, match="missing"):
        store.blobs.open(digest)
    data = os.urandom(3_000_001)
    with store.blobs.open(store.blobs.put(data)) as file:
        assert file.seek(0, io.SEEK_END) == len(data)
        assert file.read() == b""
        file.seek(1_500_000)
        assert file.read(10) == data[1_500_000:1_500_010]
        file.seek(0)
        assert file.read() == data
    assert list((store.blobs.folder / "incoming").iterdir()) == []


def test_wrong_content_in_the_store_is_refused_and_mended_by_the_next_put(store):
    import obstore

    digest = store.blobs.put(b"abc")
    obstore.put(store.blobs._store, f"blobs/{digest[:2]}/{digest}", b"abd")
    assert not store.blobs.is_whole(digest)
    with pytest.raises(BlobError, match="damaged"):
        store.blobs.read(digest)
    assert store.blobs.put(b"abc") == digest
    assert store.blobs.read(digest) == b"abc"


def test_transactions_keys_and_order_are_those_of_sqlite(store):
    with contextlib.suppress(RuntimeError), store.writing() as session:
        session.add(BlobRow(sha256="a" * 64, kind="update"))
        session.flush()
        raise RuntimeError("half way")
    with store.reading() as session:
        before = session.scalars(select(BlobRow)).all()
        with store.writing() as writer:
            writer.add_all([BlobRow(sha256=name, kind="update") for name in ("b", "B", "a", "ä")])
        assert session.scalars(select(BlobRow)).all() == before == []
    with store.reading() as session:  # by code points
        assert list(session.scalars(select(BlobRow.sha256).order_by(BlobRow.sha256))) == ["B", "a", "b", "ä"]
        assert session.scalar(text("SHOW transaction_read_only")) == "on"
    with pytest.raises(IntegrityError), store.writing() as session:
        session.add(ParticipantRow(round_id=1, device_id="0" * 32, metrics={}))


def test_a_commit_that_may_be_lost_is_durable_once_it_was_flushed(store):
    with store.writing(durable=False) as session:
        assert session.scalar(text("SHOW synchronous_commit")) == "off"
        session.add(BlobRow(sha256="a" * 64, kind="model"))
        written = session.scalar(text("SELECT pg_current_wal_insert_lsn()"))
    kind = select(BlobRow.kind).where(BlobRow.sha256 == "a" * 64)
    assert store.first_row(kind, {}).kind == "model"
    store.flush()
    with store.writing() as session:
        assert session.scalar(text("SHOW synchronous_commit")) == "on"
        flushed = text("SELECT pg_current_wal_flush_lsn() > CAST(:written AS pg_lsn)")
        assert session.scalar(flushed, {"written": written})


def test_a_round_that_was_undone_leaves_its_number_to_the_next(tmp_path):
    fleet = CoreFleet(tmp_path / "data")
    with contextlib.closing(fleet.store):
        first = fleet.run_round()
        with contextlib.suppress(RuntimeError), fleet.store.writing() as session:
            session.execute(text("SELECT nextval('rounds_round_id_seq')"))
            raise RuntimeError("half way")
        assert fleet.open(200.0) == first + 1


def test_servers_share_a_fleet_where_they_share_its_store_and_no_command_moves_it_meanwhile(place, store, tmp_path):
    with pytest.raises(StartError, match="in use by another aggregator"):  # its arrays would be on its own disk
        open_store(Location(tmp_path / "without a store", place.database))
    with contextlib.closing(open_store(Location(tmp_path / "another machine's", place.database, place.store))) as other:
        digest = other.blobs.put(b"abc")
        assert store.blobs.read(digest) == b"abc"
        store.close()
        with alone(place) as is_alone:
            assert not is_alone
    with alone(place) as is_alone:
        assert is_alone
        with pytest.raises(StartError, match="or by a command"):
            open_store(Location(tmp_path / "another machine's", place.database, place.store))


def test_blobs_of_another_fleet_a_database_of_something_else_and_a_bucket_that_is_not_there_are_refused(
    place, store, states, moved_to, tmp_path
):
    store.close()
    other = moved_to(tmp_path / "other")
    open_store(other).close()
    with pytest.raises(StartError, match="database of another fleet"):
        open_store(Location(tmp_path / "x", place.database, other.store))
    empty = moved_to(tmp_path / "y")
    with pytest.raises(StartError, match=r"belong to a fleet, but its database .* is missing or empty"):
        open_store(Location(tmp_path / "z", empty.database, other.store))
    found = moved_to(tmp_path / "data")
    states.postgres.ask(name_of(found), "CREATE TABLE invoices (id int)")
    with pytest.raises(StartError, match="tables of another program, like invoices"):
        open_store(found)
    with pytest.raises(StateAwayError, match="NoSuchBucket"):
        open_store(Location(tmp_path / "data", moved_to(tmp_path).database, "s3://no-such-bucket/x"))


def test_a_fleet_moves_there_and_back_and_a_move_that_was_interrupted_is_begun_again(
    tmp_path, moved_to, monkeypatch, capsys
):
    monkeypatch.setattr("tests.support.core_fleet.located", lambda folder: folder)  # it begins in a folder
    folder = tmp_path / "data"
    fleet = between_rounds(folder, uploads=2)
    before, there = rows_of(folder), moved_to(folder)
    with monkeypatch.context() as broken:
        broken.setattr("aggregator_server.upkeep.copying._fill_database", killed)
        with pytest.raises(RuntimeError, match="killed"):
            move(Location(folder), there)
    with pytest.raises(StartError, match="missing or empty"):  # nobody begins a fleet beside what was copied
        open_store(there)
    assert move(Location(folder), there)[1] > 0
    assert set(open_blobs(there).digests()) == set(BlobFolder(folder / "blobs").digests())
    assert rows_of(there) == before
    with pytest.raises(StartError, match=r"is in postgresql.*; name it by --database"):
        open_store(folder)
    fleet.store = open_store(there)
    with contextlib.closing(fleet.store):
        for device in fleet.devices[2:]:
            fleet.upload(device, 201.0)
        assert fleet.advance(202.0) == 2
        found = describe_round(fleet.store, 2)
    monkeypatch.setenv("AURICLE_DATABASE", there.database)
    monkeypatch.setenv("AURICLE_STORE", there.store)
    assert main(["move", "--data", str(folder), "--to", str(tmp_path / "back")]) == 0
    assert "arrays" in capsys.readouterr().out
    with pytest.raises(StartError, match="was moved to"):
        open_store(there)
    with contextlib.closing(open_store(tmp_path / "back")) as store:
        assert describe_round(store, 2) == found
        assert all(store.blobs.is_whole(digest) for digest in store.blobs.digests())
    assert check(tmp_path / "back") == []


def test_a_backup_is_the_same_from_both_and_goes_into_both(tmp_path, moved_to, place):
    fleet = CoreFleet(tmp_path / "data")
    with contextlib.closing(fleet.store):
        fleet.run_round()
        back_up(place, tmp_path / "copy.tar")  # while it runs
        with pytest.raises(BackupError, match="a server runs"):
            check(place, repair=True)
    with tarfile.open(tmp_path / "copy.tar") as archive:
        assert "auricle.db" in archive.getnames()
    before, elsewhere = rows_of(place), moved_to(tmp_path / "elsewhere")
    restore(tmp_path / "copy.tar", tmp_path / "folder")
    restore(tmp_path / "copy.tar", elsewhere)
    assert rows_of(tmp_path / "folder") == rows_of(elsewhere) == before
    assert check(tmp_path / "folder") == check(elsewhere) == check(place, repair=True) == []
    with contextlib.closing(open_store(elsewhere)) as store:
        assert [entry.what for entry in list_entries(store, None, 10)]
    with contextlib.closing(open_store(place)) as store, store.writing() as session:
        session.add(BlobRow(sha256="a" * 64, kind="model"))
    with pytest.raises(StartError, match="holds a fleet already"):
        restore(tmp_path / "copy.tar", Location(tmp_path / "third", place.database, moved_to(tmp_path).store))


def test_the_command_of_the_nightly_copy_copies_a_fleet_that_the_environment_names(tmp_path, place, monkeypatch):
    with contextlib.closing(CoreFleet(tmp_path / "data").store):
        pass
    unit = (ROOT / "systemd/auricle-aggregator-backup.service").read_text()
    words = re.search(r"^ExecStart=\S+/auricle-aggregator (.*)$", unit, re.MULTILINE)[1]
    words = words.replace("${AURICLE_BACKUPS}", "7").replace("/var/lib/auricle-aggregator-backups", str(tmp_path / "x"))
    words = words.replace("/var/lib/auricle-aggregator", str(tmp_path / "data"))
    assert main(words.split()) == 1  # the folder alone holds no fleet
    monkeypatch.setenv("AURICLE_DATABASE", place.database)
    monkeypatch.setenv("AURICLE_STORE", place.store)
    assert main(words.split()) == 0
    (copy,) = (tmp_path / "x").iterdir()
    restore(copy, tmp_path / "again")
    assert rows_of(tmp_path / "again") == rows_of(place)


def test_a_folder_remembers_where_its_fleet_is_and_asks_for_nothing_but_the_password(
    tmp_path, place, states, monkeypatch, capsys
):
    address = f"{place.database}?application_name=of%20the%20tests"
    open_store(Location(place.data, address, place.store)).close()
    note = (place.data / "state.json").read_text()
    assert "application_name=of" in note
    assert not any(word in note for word in ("p@ss", "p%40ss", "p%2540ss"))
    for words in (["run"], ["doctor"], ["check"], ["backup", str(tmp_path / "copy.tar")], ["devices", "list"]):
        assert main([*words, "--data", str(place.data)]) == 1
        assert "keeps no password: put it into ~/.pgpass, $PGPASSWORD or $AURICLE_DATABASE" in capsys.readouterr().err
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    for words in (["check"], ["backup", str(tmp_path / "copy.tar")], ["devices", "list"], ["tokens", "list"]):
        assert main([*words, "--data", str(place.data)]) == 0
    elsewhere = states.postgres.url(states.postgres.new())
    given = ["--database", elsewhere, "--store", str(tmp_path / "store")]
    assert main(["restore", str(tmp_path / "copy.tar"), "--data", str(tmp_path / "again"), *given]) == 0
    assert f"auricle-aggregator run --data {tmp_path / 'again'}\n" in capsys.readouterr().out
    assert main(["check", "--data", str(tmp_path / "again")]) == 0
    with pytest.raises(StartError, match="name it by --database"):
        open_tables(place.data)
    (place.data / "state.json").write_text("[")
    assert main(["check", "--data", str(place.data)]) == 1
    assert "state.json is damaged" in capsys.readouterr().err


@pytest.mark.parametrize("elsewhere", [False, True])
def test_what_nothing_names_is_removed_after_a_day(tmp_path, monkeypatch, elsewhere):
    if not elsewhere:
        monkeypatch.setattr("tests.support.core_fleet.located", lambda folder: folder)
    fleet = CoreFleet(tmp_path / "data")
    with contextlib.closing(fleet.store):
        named = set(fleet.store.blobs.digests())
        left = fleet.store.blobs.put(b"left by a server that was killed")
        assert (sweep(fleet.store, time.time()), sweep(fleet.store, time.time() + DAY_S - 60)) == (0, 0)
        assert fleet.store.blobs.exists(left)
        assert sweep(fleet.store, time.time() + DAY_S + 60) == 1
        assert set(fleet.store.blobs.digests()) == named


def test_options_come_before_the_environment_and_nothing_shows_a_password(tmp_path, states, caplog, capsys):
    secret = "p%40ss%2Fw%3Ard%25of%20tests"
    environment = {"AURICLE_DATABASE": f"postgresql://u:{secret}@h/d", "AURICLE_STORE": "s3://bucket/x"}
    found = locate_by(tmp_path, None, "s3://bucket/other", environment)
    assert (found.database, found.store) == (environment["AURICLE_DATABASE"], "s3://bucket/other")
    assert locate_by(tmp_path, None, None, {}) == Location(tmp_path)
    caplog.set_level(logging.DEBUG)
    wrong = states.postgres.url("postgres").replace(secret, "wrong%2Dsecret")
    for address in (wrong, states.postgres.url("no_such_database"), f"postgresql://u:{secret}@127.0.0.1:1/d"):
        for command in (["doctor"], ["check"], ["tokens", "list"], ["run", "--create"]):
            assert main([*command, "--data", str(tmp_path / "d"), "--database", address]) == 1
    said = "".join(capsys.readouterr()) + caplog.text + repr(found)
    for word in (secret, PASSWORD, "wrong-secret", "wrong%2D"):
        assert word not in said


def test_a_database_that_was_restarted_answers_the_next_request(place, states, store):
    one = text("SELECT 1")
    store.blobs.put(b"abc")
    assert store.first_row(one, {}) == (1,)
    states.postgres.stop(signal.SIGQUIT)
    try:
        for use in (lambda: store.first_row(one, {}), store.flush, lambda: sweep(store, 1e12)):
            with pytest.raises(StateAwayError, match=r"the database postgresql://auricle@127\.0\.0\.1"):
                use()
    finally:
        states.postgres.start()
    time.sleep(1.1)  # so long it is not asked again
    assert store.first_row(one, {}) == (1,)
    with store.writing() as session:
        session.add(BlobRow(sha256="a" * 64, kind="model"))
    store.flush()
    with contextlib.closing(open_tables(place)) as tables:
        assert not tables.database.hold()  # the server holds it anew


def test_a_private_round_is_played_in_tables_that_the_server_brought_from_the_revision_before(tmp_path):
    fleet = PrivateCoreFleet(tmp_path / "data", [])
    with fleet.store.database.engine.begin() as connection:
        connection.execute(text("DROP TABLE private_parts, private_rounds, signing_keys"))
        connection.execute(text("UPDATE alembic_version SET version_num = '2'"))
    fleet.store.close()
    fleet = PrivateCoreFleet(tmp_path / "data", private_devices(6))
    round_id = fleet.open_private(groups=4)
    assert fleet.play(uploading=4) == round_id
    shown = describe_round(fleet.store, round_id)
    assert (shown.summary.state, [group.outcome for group in shown.private.groups]) == ("done", ["4 of 6 devices"])
    fleet.store.close()
