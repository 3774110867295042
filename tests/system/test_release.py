"""`make release`: the same bytes wherever it is built, an apt repository that apt takes, and what is refused."""

import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from email.parser import BytesParser
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name, parse_wheel_filename

from deb.wheels import ARMHF, needed
from release.__main__ import clean_commit
from release.errors import ReleaseError
from tests.support.packages import copy_sources

SIGNED = {"SHA256SUMS.asc", "auricle.asc", "apt/dists/stable/InRelease", "apt/dists/stable/Release.gpg"}
OWN = ("-c", "user.name=Test", "-c", "user.email=test@example.invalid", "-c", "commit.gpgsign=false")


def run(*words, status=0, **options):
    done = subprocess.run(words, text=True, capture_output=True, check=False, **options)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def build(checkout, output, *words, status=0, umask=0o022, **environment):
    command = [sys.executable, "-m", "release", "armhf", "--output", output, *words]
    return run(*command, cwd=checkout, env={**os.environ, **environment}, umask=umask, status=status)


def files(folder):
    """The content and mode of every file and folder, by its path."""
    paths = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*"))}
    return {
        name: (path.read_bytes() if path.is_file() else None, stat.S_IMODE(path.stat().st_mode))
        for name, path in paths.items()
    }


def held(package):
    """What a Debian package holds, as an archive."""
    packed = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], check=True, stdout=subprocess.PIPE).stdout
    return tarfile.open(fileobj=io.BytesIO(packed))


def wheels(package):
    """The wheels in a Debian package, by their names."""
    with held(package) as archive:
        found = [member for member in archive.getmembers() if member.name.endswith(".whl")]
        return {member.name.rpartition("/")[2]: archive.extractfile(member).read() for member in found}


@pytest.fixture(scope="module")
def key():
    """The fingerprint of a key of the test's own; its folder is short, as the agent's socket lies in it."""
    if absent := [name for name in ("apt-ftparchive", "gpg") if shutil.which(name) is None]:
        pytest.skip(f"{absent[0]} is not installed (Debian: apt-get install apt-utils gnupg)")
    with tempfile.TemporaryDirectory(prefix="gnupg-") as home, pytest.MonkeyPatch.context() as patch:
        patch.setenv("GNUPGHOME", home)
        quick = ("--quick-generate-key", "Test <test@example.invalid>", "ed25519", "sign", "never")
        run("gpg", "--batch", "--passphrase", "", *quick)
        yield re.search(r"^fpr:+(\w+):$", run("gpg", "--list-secret-keys", "--with-colons"), re.MULTILINE)[1]
        run("gpgconf", "--kill", "all")


@pytest.fixture(scope="module")
def checkouts(tmp_path_factory):
    """Two clean clones in different folders; nobody but their owner may read the second."""
    folder = tmp_path_factory.mktemp("clones")
    first, second = folder / "one", folder / "another" / "deep in a folder"
    copy_sources(first)
    run("git", "init", "--quiet", cwd=first)
    run("git", "add", "--all", "--force", cwd=first)
    run("git", *OWN, "commit", "--quiet", "--message", "A release", cwd=first)
    run("git", "clone", "--quiet", first, second, umask=0o077)
    return first, second


@pytest.fixture(scope="module")
def releases(checkouts, key, tmp_path_factory):
    """A release that is signed, and one of the other clone that is not.

    One architecture's packages are enough: those of the other are built by the same code, of more wheels.
    """
    signed, unsigned = (tmp_path_factory.mktemp(name) / "release" for name in ("signed", "unsigned"))
    assert "NOTICE" not in build(checkouts[0], signed, "--key", key)
    elsewhere = {"TZ": "Asia/Kathmandu", "LC_ALL": "C", "LANG": "tr_TR.UTF-8", "PYTHONHASHSEED": "7"}
    assert "NOTICE: nothing is signed" in build(checkouts[1], unsigned, umask=0o077, **elsewhere)
    return signed, unsigned


@pytest.mark.slow
def test_two_clones_make_the_same_bytes_and_a_key_adds_signatures_alone(releases):
    signed, unsigned = map(files, releases)
    assert set(signed) - set(unsigned) == SIGNED
    assert [name for name in unsigned if unsigned[name] != signed[name]] == []
    assert {mode for content, mode in signed.values() if content is not None} == {0o644}
    made = {name.rpartition("/")[2] for name in unsigned}
    built = {"auricle-0.1.0-py3-none-any.whl", "auricle-0.1.0.tar.gz", "auricle-edge_0.1.0_armhf.deb"}
    assert built | {"auricle-edge_0.1.0_armhf.cdx.json"} <= made


@pytest.mark.slow
def test_the_package_says_what_it_needs_and_holds_the_installer_and_every_wheel_of_a_32_bit_pi(releases):
    package = releases[0] / "auricle-edge_0.1.0_armhf.deb"
    fields = dict(line.split(": ", 1) for line in run("dpkg-deb", "--field", package).splitlines() if ": " in line)
    assert (fields["Package"], fields["Architecture"]) == ("auricle-edge", "armhf")
    wanted = {"python3 (>= 3.11)", "python3 (<< 3.12) | python3 (>= 3.13)", "python3 (<< 3.14)"}
    wanted |= {"python3-numpy", "python3-cffi", "python3-soundfile", "python3-venv", "systemd"}
    assert wanted <= set(fields["Depends"].split(", "))
    assert int(fields["Installed-Size"]) > 1000
    lines = [line.split() for line in run("dpkg-deb", "--contents", package).splitlines()]
    assert {owner for _, owner, *_ in lines} == {"root/root"}
    modes = {name.removeprefix("./usr/share/"): mode for mode, *_, name in lines}
    assert modes["auricle/systemd/setup.sh"] == "-rwxr-xr-x"
    shared = {"auricle/systemd/auricle-edge.service", "auricle/systemd/edge.toml", "auricle/constraints.txt"}
    shared |= {"auricle/systemd/auricle-edge-wyoming.service", "doc/auricle-edge/home-assistant.md"}
    assert shared | {"doc/auricle-edge/copyright", "doc/auricle-edge/device.md"} <= modes.keys()
    tags = [parse_wheel_filename(name.rpartition("/")[2])[3] for name in modes if name.endswith(".whl")]
    platforms = {tag.platform for found in tags for tag in found}
    assert platforms <= {"any", *ARMHF[0].platforms, "manylinux_2_17_armv7l", "manylinux_2_28_armv7l"}


@pytest.mark.slow
def test_what_is_published_tells_nothing_of_who_built_it(releases, checkouts):
    release, _ = releases
    epoch = int(run("git", "log", "-1", "--format=%ct", cwd=checkouts[0]))
    with tarfile.open(release / "auricle-0.1.0.tar.gz") as sdist:
        members = sdist.getmembers()
    assert {(member.uid, member.gid, member.uname, member.gname, member.mtime) for member in members} == {
        (0, 0, "", "", epoch)
    }
    assert {member.mode for member in members} == {0o644, 0o755}
    with held(release / "auricle-edge_0.1.0_armhf.deb") as data:
        assert {(member.uid, member.gid, member.mtime) for member in data} == {(0, 0, epoch)}


@pytest.mark.slow
def test_the_sums_are_true_and_signed(releases, key):
    release, _ = releases
    told = run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=release)
    assert {line.removesuffix(": OK") for line in told.splitlines()} == {
        name for name, (content, _) in files(release).items() if content is not None
    } - SIGNED - {"SHA256SUMS"}
    told = run("gpg", "--status-fd", "1", "--verify", "SHA256SUMS.asc", "SHA256SUMS", cwd=release)
    assert f"[GNUPG:] VALIDSIG {key}" in told


class Board:
    """A folder that stands for a board of 32-bit ARM whose one source of packages is a repository."""

    def __init__(self, folder, repository, key):
        for name in ("etc/apt/apt.conf.d", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial"):
            (folder / name).mkdir(parents=True)
        self.folder, status = folder, folder / "status"
        status.touch()
        (folder / "etc/apt/sources.list").write_text(f"deb [signed-by={key}] file:{repository} stable main\n")
        settings = {"Dir": folder, "Dir::State::status": status, "APT::Architecture": "armhf"}
        settings |= {"APT::Architectures": "armhf", "APT::Sandbox::User": "", "APT::Update::Error-Mode": "any"}
        configuration = folder / "apt.conf"
        configuration.write_text("".join(f'{name} "{value}";\n' for name, value in settings.items()))
        self.environment = {**os.environ, "APT_CONFIG": str(configuration), "LC_ALL": "C.UTF-8"}

    def apt(self, *words, status=0):
        return run("apt-get", *words, cwd=self.folder, env=self.environment, status=status)


@pytest.mark.slow
def test_apt_takes_the_package_from_the_signed_repository(releases, tmp_path):
    release, _ = releases
    board = Board(tmp_path, release / "apt", release / "auricle.asc")
    board.apt("update")
    board.apt("download", "auricle-edge")
    assert (tmp_path / "auricle-edge_0.1.0_armhf.deb").read_bytes() == (
        release / "auricle-edge_0.1.0_armhf.deb"
    ).read_bytes()


def changed(repository, pattern):
    """Spoil the files of a name."""
    for path in repository.rglob(pattern):
        data = path.read_bytes()
        path.write_bytes(data.replace(b"Auricle", b"Elsewho") if b"Auricle" in data else data[:-1] + b"?")


@pytest.mark.slow
def test_apt_refuses_what_somebody_changed_or_nobody_signed(releases, tmp_path):
    signed, unsigned = releases
    for number, (release, pattern, said) in enumerate(
        [
            (signed, "Packages*", "unexpected size|Hash Sum mismatch"),
            (signed, "InRelease", "BADSIG|invalid signature"),
            (unsigned, "none", "is not signed"),
        ]
    ):
        repository = Path(shutil.copytree(release / "apt", tmp_path / f"apt-{number}"))
        changed(repository, pattern)
        board = Board(tmp_path / f"board-{number}", repository, signed / "auricle.asc")
        assert re.search(said, board.apt("update", status=100)), said
    repository = Path(shutil.copytree(signed / "apt", tmp_path / "apt"))
    board = Board(tmp_path / "board", repository, signed / "auricle.asc")
    board.apt("update")
    changed(repository, "*.deb")
    assert "Hash Sum mismatch" in board.apt("download", "auricle-edge", status=100)


@pytest.mark.slow
def test_the_bill_of_materials_names_what_the_package_holds(releases):
    release, _ = releases
    package = release / "auricle-edge_0.1.0_armhf.deb"
    bill = json.loads(package.with_suffix(".cdx.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    whole, parts = bill["metadata"]["component"], bill["components"]
    assert (whole["type"], whole["name"], whole["version"]) == ("application", "auricle-edge", "0.1.0")
    assert len({part["bom-ref"] for part in [whole, *parts]}) == 1 + len(parts)
    content, sums = wheels(package), (release / "SHA256SUMS").read_text()
    assert f"{whole['hashes'][0]['content']}  {package.name}\n" in sums
    assert [part["bom-ref"] for part in parts] == sorted(content)
    for part in parts:
        name, version, *_ = parse_wheel_filename(part["bom-ref"])
        with zipfile.ZipFile(io.BytesIO(content[part["bom-ref"]])) as wheel:
            (about,) = [entry for entry in wheel.namelist() if entry.endswith(".dist-info/METADATA")]
            metadata = BytesParser().parsebytes(wheel.read(about))
        assert (part["name"], part["version"]) == (metadata["Name"], metadata["Version"])
        assert (canonicalize_name(part["name"]), part["version"]) == (name, str(version))
        assert part["purl"].startswith(f"pkg:pypi/{name}@{version}?")
        assert part["type"] == "library"
        assert all(set(choice) in ({"expression"}, {"license"}) for choice in part.get("licenses", []))
    (own,) = [part for part in parts if part["name"] == "auricle"]
    assert own["licenses"] == [{"expression": "Apache-2.0"}]
    assert f"{own['hashes'][0]['content']}  auricle-0.1.0-py3-none-any.whl\n" in sums
    pinned = {"auricle==0.1.0"}.union(*(needed(target, "auricle[edge,mqtt,private,wyoming]") for target in ARMHF))
    assert {f"{canonicalize_name(part['name'])}=={part['version']}" for part in parts} == pinned


@pytest.mark.slow
def test_a_release_that_cannot_be_built_leaves_nothing(checkouts, key, tmp_path):
    checkout, place = checkouts[1], tmp_path / "place"
    place.mkdir()
    nowhere = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(place)}
    assert "cannot be installed" in build(checkout, place / "release", status=1, **nowhere)
    assert "is no fingerprint of 40 digits" in build(checkout, place / "release", "--key", "Test", status=1)
    assert "No secret key" in build(checkout, place / "release", "--key", "0" * 40, status=1)
    assert list(place.iterdir()) == []
    (place / "kept.txt").touch()
    assert "is there already" in build(checkout, place, status=1)
    assert list(place.iterdir()) == [place / "kept.txt"]


def test_only_a_checkout_that_is_its_commit_is_released(tmp_path):
    with pytest.raises(ReleaseError, match="not a git repository"):
        clean_commit(tmp_path)
    run("git", "init", "--quiet", cwd=tmp_path)
    (tmp_path / ".gitignore").write_text("dist/\n")
    run("git", "add", ".gitignore", cwd=tmp_path)
    dated = {**os.environ, "GIT_COMMITTER_DATE": "@1700000000 +0900"}
    run("git", *OWN, "commit", "--quiet", "--message", "One", cwd=tmp_path, env=dated)
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "ignored.txt").touch()
    assert clean_commit(tmp_path)[1] == 1_700_000_000
    with pytest.raises(ReleaseError, match="is no checkout of its own"):
        clean_commit(tmp_path / "dist")
    for number in range(25):
        (tmp_path / f"{number}.txt").touch()
    with pytest.raises(ReleaseError, match=r"commit, ignore or remove these files:\n\?\? 0.txt\n(.*\n)+and 5 more"):
        clean_commit(tmp_path)
