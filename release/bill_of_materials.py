"""The software bill of materials of a Debian package (CycloneDX 1.6, JSON), read from the wheels that it holds.

Only the wheels are named: what else the package needs comes from the distribution, and its control file says it.
"""

import email.message
import email.parser
import hashlib
import io
import json
import subprocess
import tarfile
import uuid
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

_LONGEST_NAME = 100  # of a licence; some packages put its whole text there


def write_bill(package: Path, epoch: int) -> None:
    """Write the bill of a package beside it, `.cdx.json` in place of `.deb`.

    Args:
        package: a file of `python -m deb`.
        epoch: time of the bill, seconds since 1970.
    """
    digest = hashlib.sha256(package.read_bytes()).hexdigest()
    name, version, architecture = _fields(package, "Package", "Version", "Architecture")
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, UTC).isoformat(),
            "component": {
                "type": "application",
                "bom-ref": package.name,
                "name": name,
                "version": version,
                "purl": f"pkg:deb/auricle/{name}@{version}?arch={architecture}",
                "hashes": [{"alg": "SHA-256", "content": digest}],
            },
        },
        "components": [_component(*wheel) for wheel in _wheels(package)],
    }
    package.with_suffix(".cdx.json").write_text(json.dumps(bill, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _fields(package: Path, *names: str) -> list[str]:
    shown = "".join(f"${{{name}}}\n" for name in names)
    command: list[str | Path] = ["dpkg-deb", "--show", f"--showformat={shown}", package]
    return subprocess.run(command, text=True, capture_output=True, check=True).stdout.splitlines()


def _wheels(package: Path) -> list[tuple[str, bytes]]:
    """Return the wheels in a package, sorted by name."""
    files = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(files)) as archive:
        found = {member.name: archive.extractfile(member) for member in archive if member.name.endswith(".whl")}
        return sorted((name.rpartition("/")[2], file.read()) for name, file in found.items() if file)


def _component(file_name: str, content: bytes) -> dict[str, Any]:
    with zipfile.ZipFile(io.BytesIO(content)) as wheel:
        about = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.parser.BytesParser().parsebytes(wheel.read(about), headersonly=True)
    name, version = metadata["Name"], metadata["Version"]
    return {
        "type": "library",
        "bom-ref": file_name,
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{canonicalize_name(name)}@{version}?file_name={file_name}",
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}],
        **_licences(metadata),
    }


def _licences(metadata: email.message.Message) -> dict[str, Any]:
    """Return a wheel's licence as its author names it: an SPDX expression, or a name."""
    if expression := metadata["License-Expression"]:
        return {"licenses": [{"expression": expression}]}
    classifiers = [text for text in metadata.get_all("Classifier", []) if text.startswith("License ::")]
    names = [text.rpartition(" :: ")[2] for text in classifiers]
    if not names and len(metadata["License"] or "") in range(1, _LONGEST_NAME):
        names = [metadata["License"]]
    return {"licenses": [{"license": {"name": name}} for name in names]} if names else {}
