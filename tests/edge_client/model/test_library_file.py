"""A library that is missing, damaged, foreign, too new or untested is refused by name, with the way out."""

import os
import shutil
import subprocess
import sys

import pytest

from edge_client.errors import ModelError
from edge_client.model import library_file
from edge_client.model.library_file import PACKAGE, PACKAGE_VERSION, VARIABLE, library_path
from tests.support.checkout import ROOT


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A copy of the package's library, named in the variable."""
    copy = tmp_path / "libtensorflowlite_c.so"
    shutil.copy(library_path(), copy)
    monkeypatch.setenv(VARIABLE, str(copy))
    return copy


LOAD = """
from edge_client.errors import ModelError
from edge_client.model.interpreter import describe_runtime
try:
    print(describe_runtime())
except ModelError as error:
    print(f"refused: {error}")
"""


def loaded(**environment: str) -> str:
    """What loading the library says, in a process of its own: a process loads it once."""
    command = [sys.executable, "-c", LOAD]
    environment = {**os.environ, **environment}
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def test_the_version_is_the_one_that_is_pinned():
    assert f"{PACKAGE}=={PACKAGE_VERSION}\n" in (ROOT / "constraints.txt").read_text()
    assert f'"{PACKAGE}=={PACKAGE_VERSION}; ' in (ROOT / "pyproject.toml").read_text()


def test_a_library_of_ones_own_is_taken_and_told(own):
    digest = library_file.digest_of(own)[:12]
    assert loaded() == f"TensorFlow Lite 2.17.1 ({own}, SHA-256 {digest})"


def test_one_that_is_not_there_is_named_with_the_variable(tmp_path):
    missing = tmp_path / "none.so"
    assert loaded(**{VARIABLE: str(missing)}) == (
        f"refused: {VARIABLE} names {missing}, which is no file; unset it, or name a libtensorflowlite_c.so"
    )


def test_a_library_for_a_newer_system_names_both_versions(own):
    data = own.read_bytes()
    assert b"GLIBC_2.34\0" in data
    own.write_bytes(data.replace(b"GLIBC_2.34\0", b"GLIBC_2.99\0"))
    said = loaded()
    assert said.startswith(f"refused: {own} cannot be loaded: ")
    assert "GLIBC_2.99" in said
    assert "take Debian 12, Ubuntu 22.04 or a later system" in said


def test_a_library_of_the_package_that_was_changed_is_refused(tmp_path, monkeypatch):
    changed = tmp_path / "libtensorflowlite_c.so"
    changed.write_bytes(library_path().read_bytes()[:-1] + b"x")
    monkeypatch.setattr(library_file, "_FILE", str(changed))
    with pytest.raises(ModelError, match=r"is damaged, or no library that Auricle was tested with; pip install"):
        library_path()


def test_without_a_description_of_the_processor_it_is_not_loaded(tmp_path):
    with pytest.raises(ModelError, match=r"none cannot be read, without which TensorFlow Lite crashes; mount /proc"):
        library_file._check_cpuinfo(tmp_path / "none")


def test_without_a_list_of_the_processors_it_is_not_loaded_on_aarch64(tmp_path, monkeypatch):
    none = tmp_path / "possible"
    monkeypatch.setattr(library_file, "_own_processor", lambda: 183)
    with pytest.raises(ModelError, match=r"possible cannot be read, without which TensorFlow Lite crashes; mount /sys"):
        library_file._check_cpuinfo(processors=none)
    # 32-bit programs under a 64-bit kernel, which calls itself aarch64
    monkeypatch.setattr(library_file, "_own_processor", lambda: 40)
    monkeypatch.setattr(library_file.platform, "machine", lambda: "aarch64")
    library_file._check_cpuinfo(processors=none)


@pytest.mark.parametrize(
    ("features", "lacks"),
    [
        ("half thumb fastmult vfp edsp java tls", "no neon and no vfpv4"),  # a Pi 1
        ("half thumb vfp edsp neon vfpv3 tls", "no vfpv4"),
        ("half thumb vfp edsp neon vfpv3 tls vfpv4 idiva", ""),  # a Pi 2
        ("fp asimd evtstrm crc32 cpuid", ""),  # a Pi 4 with a 64-bit kernel
    ],
)
def test_a_processor_without_the_librarys_instructions_is_refused(tmp_path, monkeypatch, features, lacks):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nFeatures\t: {features}\n")
    monkeypatch.setattr(library_file, "_own_processor", lambda: 40)
    monkeypatch.setattr(library_file.platform, "machine", lambda: "armv7l")
    if lacks:
        with pytest.raises(
            ModelError, match=f"this processor \\(armv7l\\) has {lacks}, which {PACKAGE}'s library needs"
        ):
            library_file._check_instructions(cpuinfo)
    else:
        library_file._check_instructions(cpuinfo)
