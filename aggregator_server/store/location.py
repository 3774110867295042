"""Where a fleet's state is: its tables in SQLite or PostgreSQL, its blobs in a folder or an object store; and its copy.

Addresses may hold passwords. Whoever shows one shows :attr:`Location.tables_shown` and :attr:`Location.blobs_shown`.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from aggregator_server.errors import StartError
from fleet_protocol.ground.atomic_files import write_durably

DATABASE_VARIABLE, STORE_VARIABLE = "AURICLE_DATABASE", "AURICLE_STORE"
DATABASE = "auricle.db"
NOTE = "state.json"
"""File of a data folder that says where the fleet's state is, where that is elsewhere; no password is in it."""
# The note of the newest copy: where it is. In no copy: a folder that was restored has none of its own yet.
_COPIED = ".backed-up"
_LONGEST = 2_000
_OBJECT_STORES = ("s3", "gs", "az")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}", re.ASCII)
_PREFIX = re.compile(r"[^\x00-\x1f\x7f\\]{0,800}")
_SECRETS = ("password", "sslpassword", "oauth_client_secret")  # of an address' parameters


@dataclass(frozen=True)
class Location:
    """Where the state is."""

    data: Path  # the data folder: the server's own files, and whatever is not elsewhere
    database: str | None = None  # address of a PostgreSQL database; None: SQLite in the data folder
    store: str | None = None  # address of an object store, or a folder; None: the folder ``blobs`` in the data folder

    def __post_init__(self) -> None:
        """Check both addresses. Raises StartError: one is none; its password is not shown."""
        if self.database is not None:
            _require_database(self.database)
        if self.store is not None:
            _require_store(self.store)

    def __repr__(self) -> str:
        """Without a password."""
        return f"Location({str(self.data)!r}, {self.tables_shown!r}, {self.blobs_shown!r})"

    @property
    def file(self) -> Path | None:
        """The file of the tables; None where they are in PostgreSQL."""
        return self.data / DATABASE if self.database is None else None

    @property
    def is_shared(self) -> bool:
        """Whether servers with other data folders can have the same state."""
        return self.database is not None and self.store is not None

    @property
    def blob_folder(self) -> Path | None:
        """The folder of the blobs; None where they are in an object store."""
        if self.store is None:
            return self.data / "blobs"
        return None if _is_object_store(self.store) else folder_of(self.store)

    @property
    def tables_shown(self) -> str:
        """Where the tables are, for people: without a password."""
        return str(self.file) if self.database is None else show_database(self.database)

    @property
    def blobs_shown(self) -> str:
        """Where the blobs are, for people."""
        return str(self.blob_folder) if self.store is None else self.store


def locate(place: Path | Location) -> Location:
    """Return where the state is; a folder stands for one that has all of it."""
    return place if isinstance(place, Location) else Location(place)


def locate_by(data: Path, database: str | None, store: str | None, environment: Mapping[str, str]) -> Location:
    """Return where options say that the state is; where they say nothing the environment, and then the folder's note.

    Raises StartError: an address is none, or the note is damaged.
    """
    noted = noted_state(data)
    return Location(
        data,
        database or environment.get(DATABASE_VARIABLE) or noted.get("database"),
        store or environment.get(STORE_VARIABLE) or noted.get("store"),
    )


def noted_state(data: Path) -> dict[str, str]:
    """Return a folder's note: ``database``, ``store``, or ``moved_to`` for people. Raises StartError: it is damaged."""
    path = data / NOTE
    try:
        noted = json.loads(path.read_bytes())
        return {name: str(noted[name]) for name in ("database", "store", "moved_to") if noted.get(name)}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (ValueError, TypeError, AttributeError) as error:
        raise StartError(
            f"{path} is damaged ({error}); remove it, and name the fleet's state once by --database and --store"
        ) from None


def note_state(location: Location) -> None:
    """Note in the data folder where the state is. Raises OSError: the disk refuses."""
    found: dict[str, str] = {}
    if location.database is not None:
        found["database"] = show_database(location.database, parameters=True)
    if location.store is not None:
        found["store"] = location.store if "://" in location.store else str(Path(location.store).absolute())
    if found != noted_state(location.data):
        write_durably(location.data / NOTE, json.dumps(found).encode())


def note_moved(data: Path, to: str) -> None:
    """Note in a data folder that its fleet is in another one now."""
    write_durably(data / NOTE, json.dumps({"moved_to": to}).encode())


def is_database(text: str) -> bool:
    """Say whether a text looks like the address of a PostgreSQL database."""
    return text.partition(":")[0] in ("postgresql", "postgres")


def _is_object_store(text: str) -> bool:
    return text.partition("://")[0] in _OBJECT_STORES and "://" in text


def _require_database(text: str) -> None:
    from sqlalchemy import make_url  # heavy, and only needed here
    from sqlalchemy.exc import ArgumentError

    way_out = (
        "write it like postgresql://user@host:5432/auricle; a password belongs into ~/.pgpass or the environment, with "
        "%40 for @ and %2F for /"
    )
    if not is_database(text) or len(text) > _LONGEST:
        raise StartError(f"--database must be the address of a PostgreSQL database; {way_out}")
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        url = None
    if text.count("@") > 1 or (url is not None and "@" in f"{url.host}{url.database}"):
        raise StartError(
            f"--database has an @ that stands for itself, so it cannot be told where the host is; {way_out}"
        )
    if url is None or not url.database or any(character in text for character in "\0\r\n"):
        raise StartError(f"--database is no address with the name of a database; {way_out}")


def show_database(text: str, *, parameters: bool = False) -> str:
    """Return the address of a database as people may see it: without password, and without parameters or with them."""
    from sqlalchemy import URL, make_url

    url = make_url(text)
    query = {name: value for name, value in url.query.items() if parameters and name not in _SECRETS}
    return URL.create("postgresql", url.username, None, url.host, url.port, url.database, query).render_as_string()


def _require_store(text: str) -> None:
    """Check the address of a store. Raises StartError: it is none; a password in it is not shown."""
    if not _is_object_store(text):
        folder_of(text)
        return
    parts = _parts(text)
    if {"@", ":"} & set(parts.netloc):
        raise StartError(
            "--store must not hold a key; give it in the environment, as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    prefix = unquote(parts.path)
    steps = [step for step in prefix.split("/") if step]
    if (
        _BUCKET.fullmatch(parts.netloc) is None
        or parts.query
        or parts.fragment
        or _PREFIX.fullmatch(prefix) is None
        or {".", ".."} & set(steps)
    ):
        raise StartError(
            f"--store must be like s3://bucket/prefix (s3, gs or az, letters, digits, '.', '-' and '_' in the bucket, "
            f"and no '?', '#' or '..'), not {text.partition('?')[0][:200]!r}"
        )


def bucket_and_prefix(text: str) -> tuple[str, str, str]:
    """Return (kind of store, bucket, prefix without strokes around it) of an address that was checked."""
    parts = _parts(text)
    return parts.scheme, parts.netloc, "/".join(step for step in unquote(parts.path).split("/") if step)


def _parts(text: str) -> SplitResult:
    try:
        return urlsplit(text)
    except ValueError as error:
        raise StartError(f"--store is no address ({error})") from None


def folder_of(text: str) -> Path:
    """Return the folder that a store's address names. Raises StartError: it names none."""
    if "://" not in text:
        if not text or "\0" in text:
            raise StartError("--store must be a folder, or like s3://bucket/prefix")
        return Path(text)
    scheme, _, rest = text.partition("://")
    if scheme != "file" or not rest.startswith("/"):
        raise StartError(
            f"--store must be s3://, gs://, az://, file:/// or a folder's path, not {scheme[:20]}://; "
            "see docs/scaling.md"
        )
    return Path(unquote(rest))


def note_copy(folder: Path, file: Path) -> None:
    """Note a copy that is whole. Raises OSError: the disk refuses."""
    write_durably(folder / _COPIED, str(file.resolve()).encode("utf-8", "surrogateescape"))


def copied_at(folder: Path) -> float:
    """Return when a data folder was last copied, in seconds since 1970; 0 where it never was."""
    try:
        return (folder / _COPIED).stat().st_mtime
    except FileNotFoundError:
        return 0.0


def way_back(folder: Path) -> str:
    """Return what to do where a data folder is damaged, for people: which copy of it is the last good one."""
    at = copied_at(folder)
    if not at:
        return "no copy of it was ever made here; restore one that you have (`auricle-aggregator restore`)"
    file = (folder / _COPIED).read_bytes().decode("utf-8", "surrogateescape")
    return (
        f"the last good copy is {file}, of {datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC: "
        f"auricle-aggregator restore {file} --data NEW_FOLDER"
    )
