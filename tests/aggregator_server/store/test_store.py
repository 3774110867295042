"""The store: blobs are whole or absent, tables hold what must hold, and one process owns the folder."""

import contextlib
import hashlib
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import IntegrityError, OperationalError

from aggregator_server.errors import BlobError, StartError, StateAwayError
from aggregator_server.store.blobs import BlobFolder
from aggregator_server.store.location import Location
from aggregator_server.store.objects import ObjectBlobs, _first_line
from aggregator_server.store.opening import open_store
from aggregator_server.store.tables import BlobRow, ParticipantRow, RoundRow
from aggregator_server.upkeep.backup import back_up, restore
from aggregator_server.upkeep.check import check
from tests.support.core_fleet import between_rounds


@pytest.fixture
def store(tmp_path):
    store = open_store(tmp_path / "data")
    yield store
    store.close()


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "fleet.id")


def test_a_blob_is_found_under_its_digest_and_the_same_content_is_one_file(tmp_path):
    blobs = BlobFolder(tmp_path)
    digest = blobs.put(b"abc")
    assert digest == hashlib.sha256(b"abc").hexdigest() == blobs.put(b"abc")
    assert blobs.read(digest) == b"abc"
    assert files(tmp_path) == [tmp_path / digest[:2] / digest]


def test_a_blob_in_pieces_is_the_same_and_one_that_is_not_kept_leaves_nothing(tmp_path):
    blobs = BlobFolder(tmp_path)
    with blobs.receive() as incoming:
        for piece in (b"a", b"", b"bc"):
            incoming.write(piece)
        assert (incoming.size, incoming.content()) == (3, b"abc")
    assert files(tmp_path) == []
    with contextlib.suppress(RuntimeError), blobs.receive() as incoming:
        incoming.write(b"a")
        raise RuntimeError("half way")
    assert files(tmp_path) == []


def test_what_a_killed_process_left_half_written_is_gone_after_the_next_start(tmp_path):
    BlobFolder(tmp_path)
    (tmp_path / "incoming" / "tmp123").write_bytes(b"half")
    BlobFolder(tmp_path).remove_leftovers()
    assert files(tmp_path) == []


def test_a_missing_and_a_damaged_blob_are_told_apart(tmp_path):
    blobs = BlobFolder(tmp_path)
    digest = blobs.put(b"abc")
    blobs.path(digest).write_bytes(b"abd")
    with pytest.raises(BlobError, match="damaged"):
        blobs.read(digest)
    blobs.path(digest).unlink()
    with pytest.raises(BlobError, match="missing"):
        blobs.read(digest)
    assert blobs.put(b"abc") == digest
    assert blobs.read(digest) == b"abc"


def test_a_transaction_that_fails_changes_nothing_and_a_reader_sees_one_state_while_somebody_writes(store):
    with contextlib.suppress(RuntimeError), store.writing() as session:
        session.add(BlobRow(sha256="a" * 64, kind="update"))
        session.flush()
        raise RuntimeError("half way")
    with store.reading() as session:
        before = session.scalars(select(BlobRow)).all()
        with store.writing() as writer:
            writer.add(BlobRow(sha256="a" * 64, kind="update"))
        assert session.scalars(select(BlobRow)).all() == before == []
    with store.reading() as session:
        assert len(session.scalars(select(BlobRow)).all()) == 1


def a_round(number, state="open"):
    when = {"opened_at": 0.0, "deadline_at": 1.0}
    what = {"strategy": "zero_shot", "plan": {}, "public_set": "a" * 64, "details": {}}
    return RoundRow(round_id=number, state=state, **when, **what)


def test_the_database_itself_allows_one_open_round(store):
    with store.writing() as session:
        session.add(BlobRow(sha256="a" * 64, kind="public_set"))
        session.flush()
        session.add_all([a_round(1, "done"), a_round(2), a_round(3, "failed"), a_round(4, "done")])
    with pytest.raises(IntegrityError), store.writing() as session:
        session.add(a_round(5))


def test_commits_are_durable_readers_do_not_wait_and_foreign_keys_are_enforced(store):
    with store.reading() as session:
        pragmas = ("journal_mode", "synchronous", "foreign_keys")
        assert [session.scalar(text(f"PRAGMA {name}")) for name in pragmas] == ["wal", 2, 1]
    with pytest.raises(IntegrityError), store.writing() as session:
        session.add(ParticipantRow(round_id=1, device_id="0" * 32, metrics={}))


def test_what_is_flushed_later_is_seen_at_once_and_a_durable_commit_after_it_flushes_itself(store):
    store.flush()
    with store.writing(durable=False) as session:
        assert session.scalar(text("PRAGMA synchronous")) == 1
        session.add(BlobRow(sha256="a" * 64, kind="model"))
    kind = select(BlobRow.kind).where(BlobRow.sha256 == "a" * 64)
    assert store.first_row(kind, {}).kind == "model"
    store.flush()
    with store.writing() as session:
        assert session.scalar(text("PRAGMA synchronous")) == 2


def test_a_statement_that_fails_does_not_spoil_the_next_one_and_one_thread_alone_asks_them(store):
    with pytest.raises(OperationalError):
        store.first_row(text("SELECT no_such_column FROM blobs"), {})
    one = text("SELECT 1")
    assert store.first_row(one, {}) == (1,)
    with ThreadPoolExecutor(1) as other, pytest.raises(RuntimeError, match="only that of the event loop may"):
        other.submit(store.first_row, one, {}).result()


def test_a_database_that_another_program_holds_is_away_and_takes_writes_again_later(tmp_path, monkeypatch):
    monkeypatch.setattr("aggregator_server.store.database._LOCK_WAIT_S", 0.2)
    with (
        contextlib.closing(open_store(tmp_path / "data")) as store,
        contextlib.closing(sqlite3.connect(tmp_path / "data" / "auricle.db", isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        for _ in range(2):
            with (
                pytest.raises(StateAwayError, match=r"auricle\.db has been held by another program"),
                store.writing() as at,
            ):
                at.add(BlobRow(sha256="a" * 64, kind="model"))
            with pytest.raises(StateAwayError):
                store.database.require_writable()
        other.execute("ROLLBACK")
        store.database.require_writable()
        with store.writing() as at:
            at.add(BlobRow(sha256="a" * 64, kind="model"))


def test_a_database_that_was_removed_takes_nothing_more(tmp_path):
    with contextlib.closing(open_store(tmp_path / "data")) as store:
        (tmp_path / "data" / "auricle.db").rename(tmp_path / "away.db")
        for using in (store.writing, store.reading):
            with pytest.raises(StateAwayError, match=r"auricle\.db was removed or replaced"), using() as session:
                session.scalar(text("SELECT 1"))
        with pytest.raises(StateAwayError):
            store.first_row(text("SELECT 1"), {})
        (tmp_path / "away.db").rename(tmp_path / "data" / "auricle.db")
        with store.reading() as session:
            assert session.scalar(text("SELECT 1")) == 1


@pytest.mark.parametrize("name", ["a?b", "a#b", "100%", "a%20b", "a&b=c", "it's", 'so "said"', " with blanks ", "x;y"])
def test_everything_is_within_a_folder_whatever_signs_its_name_has(tmp_path, name):
    folder, copy = tmp_path / name / name, tmp_path / f"copy {name}.tar"
    between_rounds(folder, uploads=2)
    back_up(folder, copy)
    restore(copy, tmp_path / f"again {name}")
    assert check(folder) == check(tmp_path / f"again {name}") == []
    assert {path.name for path in tmp_path.iterdir()} == {name, copy.name, f"again {name}"}
    database = folder / "auricle.db"
    assert (stat.S_IMODE(database.stat().st_mode), database.stat().st_size > 0) == (0o600, True)
    other = Location(tmp_path / name / "data", None, str(tmp_path / name / "store"))
    with contextlib.closing(open_store(other)) as store:
        assert store.blobs.read(store.blobs.put(b"abc")) == b"abc"


def test_one_process_at_a_time_has_the_folder_which_is_for_its_owner_alone(tmp_path):
    with (
        contextlib.closing(open_store(tmp_path / "data")),
        pytest.raises(StartError, match="in use by another aggregator"),
    ):
        open_store(tmp_path / "data")
    open_store(tmp_path / "data").close()
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


def test_a_folder_that_cannot_be_used_and_a_foreign_file_are_explained(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StartError, match="cannot be used"):
        open_store(tmp_path / "file" / "data")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "auricle.db").write_bytes(b"this is no database" * 100)
    with pytest.raises(StartError, match=r"auricle\.db is damaged \(file is not a database\)"):
        open_store(tmp_path / "data")


def test_tables_of_another_release_are_refused_and_left_as_they_are(tmp_path):
    folder = tmp_path / "data"
    open_store(folder).close()
    with contextlib.closing(sqlite3.connect(folder / "auricle.db")) as database, database:
        database.execute("DROP TABLE learned")
        database.execute("UPDATE alembic_version SET version_num = 'f00'")
    for _ in range(2):  # the first refusal changed nothing, nor does it keep the folder
        with pytest.raises(StartError, match=r"have revision f00, this one reads 3\. Run the release that made them"):
            open_store(folder)
    with contextlib.closing(sqlite3.connect(folder / "auricle.db")) as database:
        assert database.execute("SELECT count(*) FROM sqlite_master WHERE name = 'learned'").fetchone() == (0,)


@pytest.mark.parametrize(
    "given",
    ["s3://", "s3://b", "s3://bucket/../x", "s3://bucket/a?x=y", "s3://bucket/a#b", "s3://bucket/%0a", "ftp://bucket/x",
     "s3://key:secret@bucket/x", "s3://key:secret/x@bucket/x", "s3://key:secret?@bucket", "file://host/x", "s3://[", "",
     "\0"],
)  # fmt: skip
def test_addresses_of_stores_that_are_none(tmp_path, given):
    with pytest.raises(StartError, match="--store") as refused:
        Location(tmp_path, None, given)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "given",
    [
        *(
            "mysql://x/y",
            "postgresql://",
            "postgresql://user:secret@host",
            "postgresql://u:secret@h:port/x",
            "x" * 3_000,
        ),
        # Passwords in which @ and / stand for themselves: what is after them would be taken for host or database.
        *("postgresql://u:p@secret@h/x", "postgresql://u:@secret/@h/x", "postgresql://u:p@secret/secret@h/x"),
        *("postgresql://u/secret:p@h/x", "postgresql:///secret:secret@h/x", "postgresql://u:p@s?x=secret@h/x"),
    ],
)
def test_addresses_of_databases_that_are_none(tmp_path, given):
    with pytest.raises(StartError, match="--database") as refused:
        Location(tmp_path, given)
    assert "secret" not in str(refused.value)


@pytest.mark.slow  # needs the package of the object store
def test_an_address_of_a_store_with_a_key_in_it_is_refused_and_nothing_that_is_said_shows_it(tmp_path, monkeypatch):
    pytest.importorskip("obstore")
    for name in ("AWS_ENDPOINT", "AWS_ENDPOINT_URL_S3", "aws_endpoint_url"):
        with monkeypatch.context() as patch:
            patch.setenv(name, "http://key:sec/ret@127.0.0.1:9")
            with pytest.raises(StartError, match=f"{name} must not hold a key") as refused:
                ObjectBlobs("s3://bucket/x", tmp_path)
            assert "ret" not in str(refused.value)
    said = _first_line(ValueError("error sending request for url (http://key:sec/ret@127.0.0.1:9/b?X-Sig=1): refused"))
    assert said == "error sending request for url (http://127.0.0.1:9/b refused"


def test_blobs_are_listed_although_some_are_removed_meanwhile(tmp_path):
    blobs = BlobFolder(tmp_path)
    one, other, third = (digest * 64 for digest in "abc")
    for digest in (one, other, third):
        blobs.path(digest).write_bytes(b"content")
    blobs.path(second := one[:-1] + "b").write_bytes(b"content")
    listed = blobs.entries()
    assert next(listed).sha256 == one
    blobs.remove(second)  # by another thread, or another server
    assert [entry.sha256 for entry in listed] == [other, third]
