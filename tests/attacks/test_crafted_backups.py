"""Backups that somebody made up, given to the aggregator: refused by one clear line, and nothing of them stays."""

import contextlib
import hashlib
import io
import json
import os
import shutil
import sqlite3
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from aggregator_server import cli as aggregator
from aggregator_server.store.opening import open_store

TERABYTE = 2**40
MANIFEST, FOLDER = "digests.json", "blobs/ab"  # of the program's own
# {} is that folder.
NAMES = (
    *(".", "..", "", "./", "/", "//", "../beside", "{}/../../../beside", "/{}/x", "./{}/x", "{}/./x", "{}//x"),
    *("{}/x/", "{}/x\n", "{}/\x1b[2Jx", "{}/\x7f", "{}/\udcff", "{}/" + "x" * 256, "{}/" + "x/" * 20 + "x"),
)
LINKS = (
    *((tarfile.SYMTYPE, name) for name in ("/etc/passwd", "nowhere")),
    *((tarfile.LNKTYPE, name) for name in ("nowhere", "identity.json", "auricle.db")),
    *((kind, "") for kind in (tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.CONTTYPE, b"Z")),
)
MANIFESTS = (
    *(b"[" * 100_000, b'{"files":' + b"[" * 100_000, b'{"a":' * 10 + b"1" + b"}" * 10, b"[" + b"1," * 2**18 + b"1]"),
    *(b"[]", b"null", b"1", b"{}", b'{"format": 1, "files": []}', b"\xff", b"x" * (2**24 + 1), b"NaN", b"1" * 10_000),
)
HEADERS = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
    *(tarfile.GNUTYPE_SPARSE, tarfile.REGTYPE),
)


@dataclass
class Program:
    """The aggregator, restoring into a folder of its own; ``evil`` is the archive that it is given."""

    folder: Path
    evil: Path
    files: dict[str, bytes]

    def restore(self) -> int:
        return aggregator.main(["restore", str(self.evil), "--data", str(self.folder)])

    def write(self, *others: tuple[tarfile.TarInfo, bytes], manifest: bytes | None = None) -> bytes:
        """Write a backup of the program's files, and of others, with all their digests; return its bytes."""
        with tarfile.open(self.evil, "w") as tar:
            digests = {}
            for info, data in (*(entry(name, data) for name, data in self.files.items()), *others):
                tar.addfile(info, io.BytesIO(data))
                digests[info.name] = hashlib.sha256(data).hexdigest()
            info, data = entry(MANIFEST, manifest or json.dumps(digests).encode())
            tar.addfile(info, io.BytesIO(data))
        return self.evil.read_bytes()


def entry(name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(data), kind, link
    return info, data


@pytest.fixture
def program(tmp_path):
    (tmp_path / "place").mkdir()
    open_store(tmp_path / "made").close()
    with contextlib.closing(sqlite3.connect(tmp_path / "made" / "auricle.db")) as database:
        files = {"auricle.db": database.serialize(), "tls/authority.pem": b"a"}
    shutil.rmtree(tmp_path / "made")
    return Program(tmp_path / "place" / "data", tmp_path / "evil.tar", files)


@pytest.fixture
def refused(program, capsys):
    """Restore what shall be refused; return why it is, once it is sure that nothing of it stays."""

    def restore() -> str:
        before = sorted(program.evil.parent.iterdir())
        assert program.restore() == 1
        said = capsys.readouterr().err
        assert "no backup of a" in said, said
        assert len(said.splitlines()) == 1
        left = [path for path in program.folder.parent.rglob("*") if not path.name.endswith(".lock")]
        assert left == []
        assert sorted(program.evil.parent.iterdir()) == before
        return said

    return restore


def test_what_the_attacks_begin_with_is_a_backup(program):
    program.write(entry(f"{FOLDER}/more", b"more"))
    assert program.restore() == 0
    files = program.files | {f"{FOLDER}/more": b"more"}
    assert all((program.folder / name).read_bytes() == data for name, data in files.items())


@pytest.mark.parametrize("name", NAMES)
def test_a_name_leads_to_a_file_within_and_is_written_in_one_way(program, refused, name):
    program.write(entry(name.format(FOLDER), b"evil"))
    refused()


@pytest.mark.parametrize(("kind", "link"), LINKS)
def test_only_plain_files_are_taken(program, refused, kind, link):
    program.write(entry(f"{FOLDER}/x", b"", kind, link))
    assert "is no plain file" in refused()


def test_nothing_is_in_it_twice_or_both_file_and_folder(program, refused):
    name = f"{FOLDER}/x"
    for others, why in (
        ((entry(name, b"1"), entry(name, b"1")), "twice"),
        ((entry(MANIFEST, b"{}"),), "twice"),
        ((entry(name, b"1"), entry(f"{name}/y", b"1")), "both a file and a folder"),
    ):
        program.write(*others)
        assert why in refused()


def test_ten_kilobytes_that_say_they_are_a_terabyte_do_not_fill_the_disk(program, refused):
    holes, data = entry(f"{FOLDER}/x", b"0\n".ljust(512, b"\0"))  # a map without any data
    sparse = {"major": "1", "minor": "0", "name": holes.name, "realsize": str(TERABYTE)}
    holes.pax_headers = {f"GNU.sparse.{key}": value for key, value in sparse.items()}
    assert len(program.write((holes, data))) <= len(program.write()) + 20_480
    program.write((holes, data))
    assert "is no plain file" in refused()


def test_a_backup_larger_than_the_disk_is_refused_before_a_byte_is_written(program, refused):
    """The archive itself is a file with a hole: as large as it says, and nothing on the disk."""
    large, _ = entry(f"{FOLDER}/x")
    large.size = TERABYTE
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in program.files.items()} | {large.name: "0" * 64}
    good = program.write(manifest=json.dumps(digests).encode())
    with program.evil.open("wb") as file:
        file.write(large.tobuf(tarfile.GNU_FORMAT))
        file.seek(TERABYTE, os.SEEK_CUR)
        file.write(good)
    assert "MB are free in" in refused()


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: f"{manifest[:20]!r}, {len(manifest)}")
def test_a_manifest_is_small_flat_and_one(program, refused, manifest):
    program.write(manifest=manifest)
    refused()


def test_the_manifest_names_every_file_and_no_other(program, refused):
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in program.files.items()}
    *_, last = digests
    for wrong in (
        {name: digest for name, digest in digests.items() if name != last},
        *(digests | {name: digest} for name, digest in (("clips/a/b", "0" * 64), (last, "0" * 64), (last, None))),
        digests | {last: [digests[last]]},
    ):
        program.write(manifest=json.dumps(wrong).encode())
        refused()


def header(kind: bytes, size: int) -> bytes:
    info = tarfile.TarInfo("x")
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize("kind", HEADERS)
@pytest.mark.parametrize("size", [-512, -(2**60), 2**31, 2**62, 2**66])
def test_a_header_that_lies_about_its_length_neither_fills_the_memory_nor_goes_on_for_ever(
    program, refused, kind, size
):
    good = program.write()
    with program.evil.open("wb") as file:
        file.write(header(kind, size) + good)
        file.truncate(2**32)
    refused()


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_headers_of_headers_do_not_exhaust_the_stack(program, refused, kind):
    program.evil.write_bytes(header(kind, 0) * 5_000 + program.write())
    refused()


def test_what_is_no_archive_or_a_cut_one_is_refused(program, refused):
    good = program.write()
    cut = (good[:size] for size in (0, 1, 511, 512, 600, 1_024, 1_100, 2_048))
    for text in (*cut, b"\0" * 10_240, b"x" * 10_240, b"\x1f\x8b" + b"x" * 1_000):
        program.evil.write_bytes(text)
        refused()
