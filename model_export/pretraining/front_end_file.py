"""The file of a trained front end, ``NAME.frontend``: a zip of two graphs, statistics of its words, and a description.

``frontend.json`` holds the other members' sizes and SHA-256 digests. Equal content gives equal bytes. A file may leave
out a member that another file in its folder holds. A network without a quantised form has an empty one.
The classifier of its words, if there is one, is a member of its own: so the statistics are the bytes that a bundle has,
and a bundle beside the file can leave them out. In older files it is one with the statistics.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleet_protocol.bundle.ready_bundles import DAMAGED, DESCRIPTION, FRONT_END_SUFFIX, find_member, open_archive
from fleet_protocol.numbers.tensors import Arrays, digest, unpack
from model_export.errors import ExportError

FORMAT, VERSION = "auricle-front-end", 1
FLOAT32, INT8, STATISTICS = "network.tflite", "network_int8.tflite", "statistics.safetensors"
HEAD = "head.safetensors"
_MEMBERS = (DESCRIPTION, FLOAT32, INT8, STATISTICS, HEAD)
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest date that zip can hold


@dataclass(frozen=True)
class FrontEndFile:
    """What a file holds."""

    description: dict[str, Any]  # content of ``frontend.json``
    float32: bytes  # the network's graph
    int8: bytes  # the same, quantised; empty where there is no such form
    statistics: Arrays  # arrays that describe the words of its training, and ``head/..``, their classifier, if any
    document: dict[str, Any]  # what stands with the arrays: ``words``, and what else EmbeddingStatistics packs

    @property
    def words(self) -> tuple[str, ...]:
        """The words of its training."""
        return tuple(self.document.get("words", ()))


def serialise(
    description: Mapping[str, Any],
    float32: bytes,
    int8: bytes,
    statistics: bytes,
    *,
    head: bytes = b"",
    left_out: Sequence[str] = (),
) -> bytes:
    """Return the bytes of a file that holds what :class:`FrontEndFile` says; statistics and classifier are packed.

    Format, version, sizes and digests are filled in. ``left_out``: members that another file of the same folder holds.
    """
    members = {FLOAT32: float32, INT8: int8, STATISTICS: statistics} | ({HEAD: head} if head else {})
    files = {name: {"bytes": len(data), "sha256": digest(data)} for name, data in members.items()}
    document = {"format": FORMAT, "version": VERSION, **description, "files": files}
    members[DESCRIPTION] = (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(members.keys() - set(left_out)):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), members[name], zipfile.ZIP_DEFLATED, 9)
    return buffer.getvalue()


def read(path: Path) -> FrontEndFile:
    """Open a file and check it.

    Raises ExportError: it is missing, damaged, no front end, or of a version that this program does not know.
    """
    try:
        with open_archive(path) as archive:
            held = set(archive.namelist())
            members = {name: archive.read(name) for name in _MEMBERS if name in held}
        description = json.loads(members[DESCRIPTION])
        if (description.get("format"), description.get("version")) != (FORMAT, VERSION):
            raise ExportError(
                f"{path} is of version {description.get('version')!r}, not {VERSION}; update the software"
            )
        files = {name: file["sha256"] for name, file in description["files"].items()}
        for name in {FLOAT32, INT8, STATISTICS, *files} - members.keys():
            members[name] = find_member(files[name], path.parent)
    except DAMAGED as error:
        raise ExportError(
            f"{path} is no readable front end ({error}); make one with `auricle-export pretrain`"
        ) from error
    for name, sha256 in files.items():
        if digest(members[name]) != sha256:
            raise ExportError(f"{path} is damaged: {name} does not match its digest; copy or make it again")
    statistics, document = unpack(members[STATISTICS])
    words = document.get("words", [])
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ExportError(f"{path} has as its words {words!r}, which is no list of names; make it again")
    if HEAD in members:
        statistics |= unpack(members[HEAD])[0]
    return FrontEndFile(description, members[FLOAT32], members[INT8], statistics, document)


def require_output(path: Path) -> None:
    """Refuse a path to which no front end can be written, before hours are spent on it.

    Raises ExportError: its suffix is another, or its folder is missing.
    """
    if path.suffix != FRONT_END_SUFFIX:
        raise ExportError(f"--output must end in {FRONT_END_SUFFIX}, not be {path}")
    if not path.parent.is_dir():
        raise ExportError(f"there is no folder {path.parent}; make it first")
