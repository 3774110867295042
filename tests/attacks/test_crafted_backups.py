"""Backups that somebody made up, given to both programs: refused by one clear line, and nothing of them stays."""

import contextlib
import hashlib
import io
import json
import os
import sqlite3
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from aggregator_server import cli as aggregator
from edge_client import cli as edge
from edge_client.storage.backup import unpack_backup

TERABYTE = 2**40
# {} is a folder of the program's own.
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
    """One of both programs, restoring into a folder of its own."""

    folder: Path
    manifest: str
    files: dict[str, bytes]
    deeper: str  # what stands before a name of a file, so that the program takes it for one of its own
    envelope: Callable[[dict[str, str]], object]
    restore: Callable[[Path], int] = field(repr=False)

    def write(self, archive: Path, *others: tuple[tarfile.TarInfo, bytes], manifest: bytes | None = None) -> None:
        """Write a backup of the program's files, and of others, with all their digests."""
        with tarfile.open(archive, "w") as tar:
            digests = {}
            for info, data in (*(plain(name, data) for name, data in self.files.items()), *others):
                tar.addfile(info, io.BytesIO(data))
                digests[info.name] = hashlib.sha256(data).hexdigest()
            tar.addfile(*streamed(self.manifest, manifest or json.dumps(self.envelope(digests)).encode()))


def tables() -> bytes:
    """Return a database; what is in it does not matter here."""
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE devices (device_id)")
        return database.serialize()


def plain(name: str, data: bytes = b"") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    return info, data


def streamed(name: str, data: bytes) -> tuple[tarfile.TarInfo, io.BytesIO]:
    return plain(name, data)[0], io.BytesIO(data)


def of_type(name: str, kind: bytes, link: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info, b""


@pytest.fixture(params=["aggregator", "device"])
def program(request, tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    if request.param == "aggregator":
        folder = place / "data"
        return Program(
            folder,
            "digests.json",
            {"auricle.db": tables(), "tls/authority.pem": b"a"},
            "blobs/ab",
            lambda digests: digests,
            lambda file: aggregator.main(["restore", str(file), "--data", str(folder)]),
        )
    config = tmp_path / "edge.toml"
    folder = place / "state"
    config.write_text(f'[device]\nname = "x"\nstate = "{folder}"\n[model]\nbundle = "base"\n')
    return Program(
        folder,
        "backup.json",
        {"identity.json": b"{}", "clips/kettle/1.wav": b"RIFF"},
        "clips/kettle",
        lambda digests: {"format": 1, "version": "0", "made_at": 0.0, "files": digests},
        lambda file: edge.main(["restore", str(file), "--yes", "--config", str(config)]),
    )


def refused(program: Program, archive: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Restore an archive that shall be refused; return why it is, once it is sure that nothing of it stays."""
    before = sorted(archive.parent.iterdir())
    assert program.restore(archive) == 1
    said = capsys.readouterr().err
    assert "no backup of a" in said, said
    assert len(said.splitlines()) == 1
    left = [path for path in program.folder.parent.rglob("*") if not path.name.endswith(".lock")]
    assert left in ([], [program.folder])  # the device makes its folder before it looks at the file
    assert sorted(archive.parent.iterdir()) == before
    return said


def test_what_the_attacks_begin_with_is_a_backup(program, tmp_path):
    program.write(tmp_path / "good.tar", plain(f"{program.deeper}/more", b"more"))
    if program.manifest == "digests.json":
        assert program.restore(tmp_path / "good.tar") == 0
        folder = program.folder
    else:
        folder = unpack_backup(tmp_path / "good.tar", program.folder)
    assert (folder / program.deeper / "more").read_bytes() == b"more"
    assert all((folder / name).read_bytes() == data for name, data in program.files.items())


@pytest.mark.parametrize("name", NAMES)
def test_a_name_leads_to_a_file_within_and_is_written_in_one_way(program, tmp_path, capsys, name):
    program.write(tmp_path / "evil.tar", plain(name.format(program.deeper), b"evil"))
    refused(program, tmp_path / "evil.tar", capsys)


@pytest.mark.parametrize(("kind", "link"), LINKS)
def test_only_plain_files_are_taken(program, tmp_path, capsys, kind, link):
    program.write(tmp_path / "evil.tar", of_type(f"{program.deeper}/x", kind, link))
    assert "is no plain file" in refused(program, tmp_path / "evil.tar", capsys)


def test_nothing_is_in_it_twice_or_both_file_and_folder(program, tmp_path, capsys):
    name = f"{program.deeper}/x"
    program.write(tmp_path / "evil.tar", plain(name, b"1"), plain(name, b"1"))
    assert "twice" in refused(program, tmp_path / "evil.tar", capsys)
    program.write(tmp_path / "evil.tar", plain(program.manifest, b"{}"))
    assert "twice" in refused(program, tmp_path / "evil.tar", capsys)
    program.write(tmp_path / "evil.tar", plain(name, b"1"), plain(f"{name}/y", b"1"))
    assert "both a file and a folder" in refused(program, tmp_path / "evil.tar", capsys)


def test_ten_kilobytes_that_say_they_are_a_terabyte_do_not_fill_the_disk(program, tmp_path, capsys):
    holes, _ = plain(f"{program.deeper}/x")
    data = b"0\n".ljust(512, b"\0")  # a map without any data
    sparse = {"major": "1", "minor": "0", "name": holes.name, "realsize": str(TERABYTE)}
    holes.size, holes.pax_headers = len(data), {f"GNU.sparse.{key}": value for key, value in sparse.items()}
    program.write(tmp_path / "evil.tar", (holes, data))
    assert (tmp_path / "evil.tar").stat().st_size <= 20_480
    assert "is no plain file" in refused(program, tmp_path / "evil.tar", capsys)


def test_a_backup_larger_than_the_disk_is_refused_before_a_byte_is_written(program, tmp_path, capsys):
    """The archive itself is a file with a hole: as large as it says, and nothing on the disk."""
    program.write(tmp_path / "good.tar")
    large, _ = plain(f"{program.deeper}/x")
    large.size = TERABYTE
    with tarfile.open(tmp_path / "good.tar") as tar:
        members = [(member, tar.extractfile(member).read()) for member in tar]
    digests = {member.name: hashlib.sha256(data).hexdigest() for member, data in members[:-1]} | {large.name: "0" * 64}
    with (tmp_path / "evil.tar").open("wb") as file:
        file.write(large.tobuf(tarfile.GNU_FORMAT))
        file.seek(TERABYTE, os.SEEK_CUR)
        with tarfile.open(fileobj=file, mode="w") as tar:
            for member, data in members[:-1]:
                tar.addfile(member, io.BytesIO(data))
            tar.addfile(*streamed(program.manifest, json.dumps(program.envelope(digests)).encode()))
    assert "MB are free in" in refused(program, tmp_path / "evil.tar", capsys)


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: f"{manifest[:20]!r}, {len(manifest)}")
def test_a_manifest_is_small_flat_and_one(program, tmp_path, capsys, manifest):
    program.write(tmp_path / "evil.tar", manifest=manifest)
    refused(program, tmp_path / "evil.tar", capsys)


def test_the_manifest_names_every_file_and_no_other(program, tmp_path, capsys):
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in program.files.items()}
    *_, last = digests
    for wrong in (
        {name: digest for name, digest in digests.items() if name != last},
        digests | {"clips/a/b": "0" * 64},
        digests | {last: "0" * 64},
        digests | {last: None},
        digests | {last: [digests[last]]},
    ):
        program.write(tmp_path / "evil.tar", manifest=json.dumps(program.envelope(wrong)).encode())
        refused(program, tmp_path / "evil.tar", capsys)


def header(kind: bytes, size: int) -> bytes:
    info = tarfile.TarInfo("x")
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize("kind", HEADERS)
@pytest.mark.parametrize("size", [-512, -(2**60), 2**31, 2**62, 2**66])
def test_a_header_that_lies_about_its_length_neither_fills_the_memory_nor_goes_on_for_ever(
    program, tmp_path, capsys, kind, size
):
    program.write(tmp_path / "good.tar")
    good = (tmp_path / "good.tar").read_bytes()
    with (tmp_path / "evil.tar").open("wb") as file:
        file.write(header(kind, size) + good)
        file.truncate(2**32)
    refused(program, tmp_path / "evil.tar", capsys)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_headers_of_headers_do_not_exhaust_the_stack(program, tmp_path, capsys, kind):
    program.write(tmp_path / "good.tar")
    (tmp_path / "evil.tar").write_bytes(header(kind, 0) * 5_000 + (tmp_path / "good.tar").read_bytes())
    refused(program, tmp_path / "evil.tar", capsys)


def test_what_is_no_archive_or_a_cut_one_is_refused(program, tmp_path, capsys):
    program.write(tmp_path / "good.tar")
    good = (tmp_path / "good.tar").read_bytes()
    for size in (0, 1, 511, 512, 600, 1_024, 1_100, 2_048):
        (tmp_path / "evil.tar").write_bytes(good[:size])
        refused(program, tmp_path / "evil.tar", capsys)
    for text in (b"\0" * 10_240, b"x" * 10_240, b"\x1f\x8b" + b"x" * 1_000):
        (tmp_path / "evil.tar").write_bytes(text)
        refused(program, tmp_path / "evil.tar", capsys)
