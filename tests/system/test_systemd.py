"""The services: units that systemd accepts and finds closed, and `make install-*` and `uninstall-*` in a folder."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from tests.support.core_fleet import between_rounds
from tests.support.packages import PIP, built_packages, service_wheels

pytestmark = pytest.mark.slow

_NAMES = ("edge", "aggregator", "edge-page", "edge-wyoming", "aggregator-proxy", "aggregator-backup")
UNITS = tuple(f"auricle-{name}" for name in _NAMES)


@pytest.fixture(scope="module")
def wheels():
    return service_wheels()


def told(command, **options):
    """Run a command to its end; what it says goes into one text."""
    return subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **options)


class Machine:
    """A folder that stands for a machine."""

    def __init__(self, folder: Path, wheels: Path):
        self.folder = folder
        self.environment = {**os.environ, "DESTDIR": str(folder), "WHEELS": str(wheels), "PYTHON": sys.executable}

    def path(self, name):
        return self.folder / name.lstrip("/")

    def make(self, *words):
        result = told(["make", "--no-print-directory", *words], cwd=ROOT, env=self.environment)
        assert result.returncode == 0, result.stdout
        return result.stdout

    def make_until(self, condition, *words):
        """Run make, and kill it with all that it started as soon as a condition holds."""
        process = subprocess.Popen(
            ["make", *words], cwd=ROOT, env=self.environment, start_new_session=True, stdout=subprocess.DEVNULL
        )
        try:
            deadline = time.monotonic() + 120
            while not condition():
                assert process.poll() is None, "make ended before the condition held"
                assert time.monotonic() < deadline, "the condition never held"
                time.sleep(0.01)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def files(self):
        """Return what is on the machine, whichever of the two environments is in use."""
        current = self.path("/opt/auricle-edge/current").readlink()
        shown = (str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.suffix != ".pyc")
        return {f"{name}/".replace(f"auricle-edge/{current}/", "auricle-edge/current/") for name in shown}

    def run(self, name, *words):
        program = self.path(f"/opt/{name}/current/bin/{name}")
        return subprocess.run([program, *words], text=True, capture_output=True, check=True).stdout


@pytest.fixture(scope="module")
def edge(tmp_path_factory, wheels):
    """A machine whose first installation was killed, and then run again."""
    machine = Machine(tmp_path_factory.mktemp("edge"), wheels)
    installing = machine.path("/opt/auricle-edge/a/lib/python3.11/site-packages/numpy")
    machine.make_until(installing.exists, "install-edge")
    assert not machine.path("/opt/auricle-edge/current").exists()
    assert not machine.path("/etc/systemd/system/auricle-edge.service").exists()
    machine.said = machine.make("install-edge", "UI=1", "WYOMING=1")
    return machine


@pytest.fixture(scope="module")
def aggregator(tmp_path_factory, wheels):
    """A machine without a checkout: it has wheels, Auricle's among them, and what Auricle's puts into share/."""
    if shutil.which("nginx", path="/usr/sbin:/usr/bin") is None:
        pytest.skip("nginx is not installed (Debian: apt-get install nginx-light)")
    _, wheel = built_packages()
    brought = tmp_path_factory.mktemp("brought")
    for path in (wheel, *wheels.iterdir()):
        (brought / path.name).symlink_to(path)
    environment = brought / "environment"
    offline = ["install", "--no-index", "--no-deps", "--prefix", environment, "--ignore-installed", wheel]
    subprocess.run([*PIP, *offline], check=True)
    machine = Machine(tmp_path_factory.mktemp("aggregator"), brought)
    command = [environment / "share/auricle/systemd/setup.sh", "install", "aggregator"]
    wanted = {**machine.environment, "BACKUPS": "1", "ALERTS": "/etc/prometheus/rules"}
    done = told(command, env=wanted)
    assert done.returncode == 0, done.stdout
    machine.said = done.stdout
    return machine


def analyze(*words):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed (Debian: apt-get install systemd)")
    return told(["systemd-analyze", *words])


@pytest.mark.parametrize("service", UNITS)
def test_units_expose_little(service):
    allowed = "--threshold=25"  # tenths: 2.5
    result = analyze("security", "--offline=yes", allowed, "--no-pager", str(ROOT / f"systemd/{service}.service"))
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("service", UNITS)
def test_installed_units_are_what_systemd_understands(service, request):
    machine = request.getfixturevalue(service.split("-")[1])
    system = machine.path("/usr/lib/systemd/system")
    if not system.exists() and Path("/lib/systemd/system").exists():
        shutil.copytree("/lib/systemd/system", system, symlinks=True)  # the targets and slices that every unit needs
    for program in ("/usr/sbin/nginx", "/bin/kill"):
        machine.path(program).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy("/bin/true", machine.path(program))
    timers = [f"{service}.timer"] if (ROOT / f"systemd/{service}.timer").exists() else []
    result = analyze("verify", f"--root={machine.folder}", f"{service}.service", *timers)
    shutil.rmtree(system, ignore_errors=True)
    assert (result.returncode, result.stdout) == (0, "")


def test_script_is_clean():
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed (Debian: apt-get install shellcheck)")
    subprocess.run(["shellcheck", ROOT / "systemd/setup.sh"], check=True)


PACKAGES = {
    "edge": ({"httpx", "edge_client", "paho", "starlette", "wyoming"}, {"tensorflow", "fastapi", "pytest"}),
    "aggregator": ({"fastapi", "aggregator_server"}, {"tensorflow", "soundfile"}),
}


@pytest.mark.parametrize(("part", "user"), [("edge", "auricle"), ("aggregator", "auricle-aggregator")])
def test_a_service_has_what_it_needs_and_state_and_secrets_belong_to_it_alone(part, user, request):
    machine, service = request.getfixturevalue(part), f"auricle-{part}"
    assert "run" in machine.run(service, "--help")
    assert machine.path(str(machine.path(f"/usr/local/bin/{service}").readlink())).exists()
    packages = {path.name for path in machine.path(f"/opt/{service}/current/lib/python3.11/site-packages").iterdir()}
    needed, others = PACKAGES[part]
    assert needed <= packages
    assert not others & packages
    assert machine.path(f"/var/lib/{user}").stat().st_mode & 0o777 == 0o700
    assert machine.path(f"/etc/auricle/{part}.env").stat().st_mode & 0o777 == 0o600
    assert f"{user}:" in machine.path("/etc/passwd").read_text()
    assert ("audio:x:" in machine.path("/etc/group").read_text()) == (part == "edge")


def test_installation_says_what_is_left_to_do(edge, aggregator):
    for step in ("auricle-edge devices", "auricle-edge join", "auricle-edge record --label", "auricle-edge status"):
        assert step in edge.said
    for unit in UNITS[:1] + UNITS[2:4]:
        assert f"systemctl enable --now {unit}" in edge.said
    for words in ("auricle-aggregator auricle-aggregator-proxy", "auricle-aggregator-backup.timer"):
        assert f"systemctl enable --now {words}" in aggregator.said
    assert "/etc/prometheus/rules/auricle.rules.yml" in aggregator.said


def test_the_timers_service_keeps_the_newest_copies_of_the_data_folder(aggregator):
    """The unit's own command; "/opt" and "/var" are the machine's."""
    data = aggregator.path("/var/lib/auricle-aggregator")
    between_rounds(data, uploads=2)
    unit = aggregator.path("/etc/systemd/system/auricle-aggregator-backup.service").read_text()
    assert "Environment=AURICLE_BACKUPS=7 " in unit
    line = re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE)[1].replace("${AURICLE_BACKUPS}", "2")
    line = re.sub(r"(?<!\S)/(?=opt/|var/)", f"{aggregator.folder}/", line)
    made = []
    while len(made) < 3:
        done = subprocess.run(line.split(), text=True, capture_output=True)
        if "exists already" not in done.stderr:  # of this same second
            assert done.returncode == 0, done.stderr
            made.append(done.stdout)
    copies = sorted(aggregator.path("/var/lib/auricle-aggregator-backups").iterdir())
    assert [str(path) for path in copies] == [said.partition(": ")[0] for said in made[1:]]
    shutil.rmtree(data)
    data.mkdir(mode=0o700)


def test_the_timers_service_reads_where_the_fleet_is_and_an_option_that_it_would_not_read_is_refused(tmp_path):
    unit = (ROOT / "systemd/auricle-aggregator-backup.service").read_text()
    assert "EnvironmentFile=-/etc/auricle/aggregator.env" in unit
    assert not re.search(r"^(Condition|PrivateNetwork)", unit, re.MULTILINE)
    options = tmp_path / "etc/auricle/aggregator.env"
    options.parent.mkdir(parents=True)
    environment = {**os.environ, "DESTDIR": str(tmp_path), "BACKUPS": "1", "PYTHON": sys.executable}
    for text, is_refused in (("--store s3://bucket/x", True), ("--tls auto", False)):
        options.write_text(f"AURICLE_OPTIONS={text}\n")
        command = [ROOT / "systemd/setup.sh", "check", "aggregator"]
        done = subprocess.run(command, env=environment, text=True, capture_output=True)
        assert ("AURICLE_DATABASE=... and AURICLE_STORE=... there instead" in done.stderr) == is_refused, done.stderr


ENABLED = [f"{unit}.service" for unit in UNITS[:-1]] + ["auricle-aggregator-backup.timer"]  # which starts the last


@pytest.mark.parametrize("unit", ENABLED)
def test_a_unit_that_is_enabled_is_started_at_every_boot(unit, request):
    if shutil.which("systemctl") is None:
        pytest.skip("systemctl is not installed (Debian: apt-get install systemd)")
    machine = request.getfixturevalue(re.split("[-.]", unit)[1])
    target = "timers" if unit.endswith(".timer") else "multi-user"
    wanted = machine.path(f"/etc/systemd/system/{target}.target.wants/{unit}")
    control = ["systemctl", f"--root={machine.folder}"]
    subprocess.run([*control, "enable", unit], check=True, capture_output=True)
    assert machine.path(str(wanted.readlink())).is_file()
    subprocess.run([*control, "disable", unit], check=True, capture_output=True)
    assert not wanted.is_symlink()


def test_who_follows_the_pages_has_the_service_started_at_every_boot():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    text = {page.name: page.read_text() for page in pages}
    # The backup's service ends by itself, and has a timer.
    started = [name for name, words in text.items() if re.search(r"systemctl start auricle(?!-\S*backup)", words)]
    assert started == [], "a service that is started and not enabled is gone after a power cut"
    assert "sudo systemctl enable --now auricle-edge" in text["start.md"]


def test_an_upgrade_that_was_killed_leaves_the_old_version_working_and_is_whole_the_second_time(edge):
    """The owner changed the configuration of an older version."""
    own = edge.path("/etc/auricle/edge.toml")
    own.write_text(own.read_text() + "# mine\n")
    edge.path("/etc/auricle/edge.toml.default").write_text("# of an older version\n")
    edge.path("/etc/auricle/edge.env").write_text("AURICLE_ENROL_TOKEN=secret\n")
    current = edge.path("/opt/auricle-edge/current")
    before, old = edge.files(), current.readlink().name
    packages = edge.path(f"/opt/auricle-edge/{'b' if old == 'a' else 'a'}/lib/python3.11/site-packages")
    edge.make_until((packages / "numpy").exists, "install-edge")
    assert "run" in edge.run("auricle-edge", "--help")
    said = edge.make("install-edge")
    assert current.readlink().name != old
    assert edge.files() == before  # nothing is left behind
    assert "edge.toml is kept" in said
    assert own.read_text().endswith("# mine\n")
    assert edge.path("/etc/auricle/edge.env").read_text() == "AURICLE_ENROL_TOKEN=secret\n"
    assert edge.path("/etc/auricle/edge.toml.default").read_text() == (ROOT / "systemd/edge.toml").read_text()


def test_a_package_without_the_page_takes_the_place_of_a_checkout_that_had_it_and_says_that_the_page_is_gone(
    tmp_path, wheels
):
    """As the Debian package's postinst does, on a machine where `make install-edge UI=1` was run before."""
    share = tmp_path / "share"
    (share / "systemd").mkdir(parents=True)
    for name in ("auricle-edge.service", "auricle-edge-wyoming.service", "edge.env", "edge.toml", "setup.sh"):
        shutil.copy(ROOT / "systemd" / name, share / "systemd")
    shutil.copy(ROOT / "constraints.txt", share)
    brought = tmp_path / "brought"
    brought.mkdir()
    for path in (built_packages()[1], *wheels.iterdir()):
        if not path.name.startswith(("starlette", "uvicorn", "jinja2", "Jinja2")):
            (brought / path.name).symlink_to(path)
    machine = Machine(tmp_path / "machine", brought)
    units = machine.path("/etc/systemd/system")
    units.mkdir(parents=True)
    shutil.copy(ROOT / "systemd" / "auricle-edge-page.service", units)
    command = [share / "systemd" / "setup.sh", "install", "edge"]
    done = told(command, env={**machine.environment, "WYOMING": "1"})
    assert done.returncode == 0, done.stdout
    assert "auricle-edge-page.service is left out, and removed" in done.stdout
    assert sorted(path.name for path in units.iterdir()) == ["auricle-edge-wyoming.service", "auricle-edge.service"]
    assert "run" in machine.run("auricle-edge", "--help")
    again = told(command, env=machine.environment)
    assert (again.returncode, "is left out" in again.stdout) == (0, False), again.stdout


def check(folder, architecture, kernel, versions, part="edge", **settings):
    """Ask the installer about a system: fakes tell its architecture, and its Pythons only say who they are."""
    real = "/usr/bin:/bin:/usr/sbin:/sbin"
    fakes = {"dpkg": f"echo {architecture}", "uname": f"echo {kernel}"}
    fakes |= {name: f'case "$2" in *version_info*) echo {version};; esac' for name, version in versions.items()}
    for name in ("python3", "python3.11", "python3.12", "python3.13", "python3.14"):
        fakes.setdefault(name, "exit 127")
    for name, line in fakes.items():
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o755)
    environment = {"PATH": f"{folder}:{real}", "DESTDIR": str(folder / "machine"), **settings}
    command = [ROOT / "systemd/setup.sh", "check", part]
    return told(command, env=environment)


BOOKWORM, TRIXIE = {"python3": "3.11", "python3.11": "3.11"}, {"python3": "3.13", "python3.13": "3.13"}
SYSTEMS = [
    ("armhf", "armv7l", BOOKWORM),
    ("arm64", "aarch64", BOOKWORM),
    ("arm64", "aarch64", TRIXIE),
    ("amd64", "x86_64", TRIXIE),
    ("armhf", "armv7l", TRIXIE),
    ("armhf", "aarch64", BOOKWORM),  # a 64-bit kernel
    ("armhf", "aarch64", TRIXIE),
    ("amd64", "x86_64", {"python3": "3.14", "python3.14": "3.14"}),
]


@pytest.mark.parametrize(("architecture", "kernel", "versions"), SYSTEMS)
def test_the_python_that_a_system_has_is_taken_where_it_suits(tmp_path, architecture, kernel, versions):
    result = check(tmp_path, architecture, kernel, versions)
    assert result.returncode == 0, result.stdout
    assert f"auricle-edge can be installed, with python3 ({versions['python3']})" in result.stdout
    assert not (tmp_path / "machine").exists()


BRINGS = "apt-get install --no-install-recommends {0} {0}-venv"
UNSUITABLE = [
    ("armv6l", BOOKWORM, {}, ["ARMv6", "NEON", "Pi 2"]),
    ("armv7l", {"python3": "3.9"}, {}, ["python3 is Python 3.9", "3.11, 3.12, 3.13 or 3.14", "Trixie"]),
    ("armv7l", {}, {}, [BRINGS.format("python3")]),
    ("armv7l", BOOKWORM, {"PYTHON": "python3.99"}, [BRINGS.format("python3.99")]),
    ("armv7l", BOOKWORM | {"python3.10": "3.10"}, {"PYTHON": "python3.10"}, ["is Python 3.10; this needs"]),
]


@pytest.mark.parametrize(("kernel", "versions", "settings", "words"), UNSUITABLE)
def test_a_system_without_a_runtime_is_told_what_works(tmp_path, kernel, versions, settings, words):
    result = check(tmp_path, "armhf", kernel, versions, **settings)
    assert result.returncode == 1
    assert all(word in result.stdout for word in words), result.stdout
    assert not (tmp_path / "machine").exists()


def test_uninstalling_keeps_what_was_learned_unless_told_otherwise(aggregator):
    learned = aggregator.path("/var/lib/auricle-aggregator/auricle.sqlite")
    learned.write_text("rounds")
    said = aggregator.make("uninstall-aggregator")
    assert "PURGE=1" in said
    assert learned.read_text() == "rounds"
    assert aggregator.path("/etc/auricle/aggregator.env").exists()
    assert not aggregator.path("/opt/auricle-aggregator").exists()
    assert not list(aggregator.path("/etc/systemd/system").iterdir())
    assert not list(aggregator.path("/etc/prometheus/rules").iterdir())
    aggregator.make("uninstall-aggregator")  # nothing left to remove is no error
    aggregator.make("uninstall-aggregator", "PURGE=1")
    assert not learned.parent.exists()
    assert not aggregator.path("/etc/auricle").exists()
    assert list(aggregator.path("/var/lib/auricle-aggregator-backups").iterdir())  # the last that is left of the data
