"""Blobs in an object store, by obstore: S3, Google's and Azure's. Keys and endpoints come from the environment.

``PREFIX/blobs/ab/abcd...`` has them by digest, ``PREFIX/fleet.id`` the fleet's number. obstore loads late.
"""

import contextlib
import io
import logging
import os
import re
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from aggregator_server.errors import BlobError, StartError, StateAwayError
from aggregator_server.store.blobs import IDENTITY, BlobStore, Entry
from aggregator_server.store.location import bucket_and_prefix

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_CONNECT_S, _REQUEST_S, _RETRIES_S, _RETRIES = 5, 60, 4, 3
_PUTS = 1  # repetitions of a put that failed: it is not repeated by obstore
_PAUSE_S = 0.2
_SMALL = 1 << 20  # read at once
_YOUNG_S = 43_200.0  # half the age at which what no row names is swept
_OF_ENVIRONMENT = ("AWS_ALLOW_HTTP", "GOOGLE_ALLOW_HTTP", "AZURE_ALLOW_HTTP")
_ADDRESSES = re.compile(r"(AWS|GOOGLE|AZURE)_\w*(ENDPOINT|UR[LI])\w*", re.IGNORECASE)  # of the environment
_log = logging.getLogger(__name__)


class ObjectBlobs(BlobStore):
    """Blobs in an object store. It does not go by what another server stored or removed meanwhile: nothing is cached.

    Every request has a time-out, and is repeated a few times within :data:`_RETRIES_S` seconds.
    """

    def __init__(self, address: str, folder: Path) -> None:
        """Open a store, as ``s3://bucket/prefix``, and make the folder of this machine; nothing is asked of it yet.

        Raises StartError: obstore is not installed, or a setting of the environment cannot be used.
        """
        super().__init__(folder)
        self._address = address
        self._incoming.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._creates = True  # whether the store can put what is not there yet
        self._store = _open(address, os.environ)

    def __reduce__(self) -> "tuple[type[ObjectBlobs], tuple[str, Path]]":
        """Pickle where it is."""
        return ObjectBlobs, (self._address, self.folder)

    def shown(self, sha256: str = "") -> str:  # noqa: D102
        return f"{self._address.rstrip('/')}/{_key(sha256)}" if sha256 else self._address

    def exists(self, sha256: str) -> bool:  # noqa: D102
        return self._head(sha256) is not None

    def open(self, sha256: str) -> BinaryIO:  # noqa: D102
        import obstore

        with self._answers(sha256):
            found = obstore.get(self._store, _key(sha256))
            if found.meta["size"] <= _SMALL:
                return io.BytesIO(bytes(found.bytes()))
        ranges = _Ranges(self, sha256, found.meta["size"])
        return cast("BinaryIO", io.BufferedReader(ranges, _SMALL))

    def read_range(self, sha256: str, start: int, length: int) -> memoryview:
        """Return bytes of a blob from a position on. Raises BlobError: it is missing."""
        import obstore

        with self._answers(sha256):
            return memoryview(obstore.get_range(self._store, _key(sha256), start=start, length=length))

    def _read(self, sha256: str) -> bytes:
        import obstore

        with self._answers(sha256):
            return bytes(obstore.get(self._store, _key(sha256)).bytes())

    def keep(self, file: BinaryIO, path: Path, sha256: str) -> None:  # noqa: D102
        file.flush()
        if not self._create(_key(sha256), path):
            # What is there may be damaged, or be swept before a row names it.
            found = self._head(sha256)
            is_young = found is not None and time.time() - found["last_modified"].timestamp() < _YOUNG_S
            if not is_young or not self.is_whole(sha256):
                self._put(_key(sha256), path, "overwrite")

    def remove(self, sha256: str) -> None:  # noqa: D102
        import obstore

        with contextlib.suppress(FileNotFoundError), self._answers():
            obstore.delete(self._store, _key(sha256))

    def entries(self) -> Iterator[Entry]:  # noqa: D102
        import obstore

        pages = iter(obstore.list(self._store, "blobs"))
        while True:
            with self._answers():
                page = next(pages, None)
            if page is None:
                return
            for found in page:
                yield Entry(found["path"].rpartition("/")[2], found["last_modified"].timestamp(), found["size"])

    def identity(self) -> str | None:  # noqa: D102
        import obstore

        try:
            with self._answers():
                return bytes(obstore.get(self._store, IDENTITY).bytes()).decode("ascii", "replace")
        except FileNotFoundError:
            return None

    def note_identity(self, text: str) -> None:  # noqa: D102
        self._create(IDENTITY, text.encode())

    def _create(self, key: str, content: Path | bytes) -> bool:
        """Put what is not there yet; return whether it was not. A store that cannot tell puts it all the same."""
        from obstore.exceptions import AlreadyExistsError, NotSupportedError

        if self._creates:
            try:
                self._put(key, content, "create")
            except AlreadyExistsError:
                return False
            except NotSupportedError:
                self._creates = False
            else:
                return True
        self._put(key, content, "overwrite")
        return True

    def _put(self, key: str, content: Path | bytes, mode: Any) -> None:  # noqa: ANN401  (obstore's own)
        import obstore
        from obstore.exceptions import AlreadyExistsError, GenericError, NotSupportedError

        for attempt in range(_PUTS + 1):
            try:
                obstore.put(self._store, key, content, mode=mode, use_multipart=False)
            except (AlreadyExistsError, NotSupportedError):
                raise
            except GenericError as error:
                if attempt == _PUTS:
                    raise self._away(error) from None
                time.sleep(_PAUSE_S * 2**attempt)
            except Exception as error:
                raise self._away(error) from None
            else:
                return

    def _head(self, sha256: str) -> Any:  # noqa: ANN401  (obstore's own)
        import obstore

        try:
            with self._answers():
                return obstore.head(self._store, _key(sha256))
        except FileNotFoundError:
            return None

    @contextlib.contextmanager
    def _answers(self, sha256: str = "") -> Iterator[None]:
        """Turn the store's errors into this package's; without ``sha256`` the caller hears FileNotFoundError."""
        from obstore.exceptions import BaseError

        try:
            yield
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error) or "ContainerNotFound" in str(error):
                raise self._away(error) from None
            if sha256:
                raise self._missing(sha256) from None
            raise
        except StateAwayError:
            raise
        except (BaseError, OSError) as error:
            raise self._away(error) from None

    def _away(self, error: Exception) -> StateAwayError:
        return StateAwayError(f"the store {self._address} does not answer as it should: {_first_line(error)}")


class _Ranges(io.RawIOBase):
    """A blob that is read by ranges as they are asked for."""

    def __init__(self, blobs: ObjectBlobs, sha256: str, size: int) -> None:
        super().__init__()
        self._blobs, self._sha256, self._size = blobs, sha256, size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"a position of {base + offset} is before the beginning")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401  (any buffer)
        length = min(len(buffer), self._size - self._at)
        if length <= 0:
            return 0
        data = self._blobs.read_range(self._sha256, self._at, length)
        if len(data) != length:
            raise BlobError(f"blob {self._blobs.shown(self._sha256)} is shorter than it was; restore it from a backup")
        buffer[:length] = data
        self._at += length
        return length


def _key(sha256: str) -> str:
    return f"blobs/{sha256[:2]}/{sha256}"


def _first_line(error: Exception) -> str:
    """Return what an error says: without what obstore adds for programmers, and what may be secret in addresses."""
    code = re.search(r"<Code>(\w{1,60})</Code>", str(error))
    line = re.sub(r"(?<=//)\S*@|\?\S*", "", str(error).partition("\n")[0].partition("<")[0])[:500]
    return f"{code[1]}: {line}" if code else line


def _open(address: str, environment: Mapping[str, str]) -> "ObjectStore":
    try:
        from obstore.exceptions import BaseError
        from obstore.store import AzureStore, GCSStore, S3Store
    except ModuleNotFoundError as error:
        raise StartError(f"--store {address} needs: pip install 'auricle[scale]'") from error
    for name, value in environment.items():
        if "@" in value and _ADDRESSES.fullmatch(name):
            raise StartError(
                f"{name} must not hold a key or a password; give these as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )
    scheme, bucket, prefix = bucket_and_prefix(address)
    clear = any(environment.get(name, "").lower() in ("1", "true", "yes", "on") for name in _OF_ENVIRONMENT)
    options: Any = {
        "prefix": prefix or None,
        "client_options": {
            "connect_timeout": timedelta(seconds=_CONNECT_S),
            "timeout": timedelta(seconds=_REQUEST_S),
            "allow_http": clear,
        },
        "retry_config": {"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=_RETRIES_S)},
    }
    try:
        if scheme == "s3":
            return S3Store(bucket, **options)
        return GCSStore(bucket, **options) if scheme == "gs" else AzureStore(bucket, **options)
    except (BaseError, ValueError, TypeError) as error:
        raise StartError(f"--store {address} cannot be used: {_first_line(error)}") from None
