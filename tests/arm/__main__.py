"""`make test-armv7`, `make test-arm64`: the device's tests and the parity of every bundle on ARM, under emulation.

All of them run on Debian 12 for armhf, and elsewhere those that another Python, NumPy 2 or another processor may
change. The roots are kept in build (`debian.SYSTEMS`). Status: 0 where all is well, 77 where this machine cannot run
ARM programs. Emulation shows what is correct and what fits into memory, never how quick it is.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.arm import debian, machine
from tests.arm.debian import SYSTEMS, System

CHECKOUT = Path(__file__).resolve().parent.parent.parent
CANNOT = 77

# Whatever tests a device's packages is run, so that nobody can forget to name a new module here,
FOLDERS = ("edge_client", "fleet_protocol")
# and what else a device runs.
ALSO = ("benchmarks/test_parity.py", "benchmarks/test_pi.py")
# Not run there: what a user reads and writes. It is plain Python, the same on every processor, often of optional extras
# that a board does without, and its tests start commands, each of which takes seconds under emulation.
PLAIN_PYTHON = tuple(
    f"edge_client/{name}"
    for name in (
        *("commands", "config", "events", "owner_page", "rules", "voice"),
        *("test_api.py", "test_cli.py", "test_live.py"),
    )
)
# A module that imports one of these tests something else than a device;
FOREIGN = re.compile(
    r"^(?:from|import) (?:aggregator_server|demo|fleet_simulator|model_export|flwr|benchmarks(?!\.(?:parity|pi)\b)|"
    r"tests\.support\.(?:core_fleet|device_fleet|simulated_fleet|update_sets)\b)",
    re.MULTILINE,
)
# and this one needs an aggregator by its fixtures.
NOT_ON_A_DEVICE = ("edge_client/daemon/test_round_loop.py",)

# What is run elsewhere than on Debian 12 for armhf; files and processes are the same there. With `computes`, nothing is
# run anywhere but what ON_PROCESSOR holds.
# With another Python and another NumPy, what computes;
WITH_NUMPY = (
    "edge_client/audio",
    "edge_client/detection",
    "edge_client/features",
    "edge_client/learning/methods",
    "edge_client/learning/test_personalisation.py",
    "edge_client/model",
    "fleet_protocol/numbers/test_tensors.py",
)
# on another processor, what another build of the C library and of NumPy computes, of which Debian 13 has another NumPy.
ON_PROCESSOR = ("edge_client/features", "edge_client/model", "benchmarks/test_parity.py")
SELECTIONS = {
    ("trixie", "armhf"): WITH_NUMPY,
    ("bookworm", "arm64"): ON_PROCESSOR,
    ("trixie", "arm64"): ("edge_client/model",),
}
LARGER_NETWORKS = "larger_network"

# How quick emulation is, and how much memory the emulator itself takes, says nothing about a board. A lesson of a head
# takes a minute there, a lesson of a network minutes: test_head.py has two of the first kind. Counting detections takes
# two, and is the same on every processor. Listening with `sounds_2s` takes five, with what `sounds` listens with too.
_HEAD_JOB = "tests/edge_client/learning/teaching/test_head.py"
NOT_UNDER_EMULATION = (
    "tests/edge_client/daemon/test_daemon_parts.py::test_training_is_killed_at_its_deadline_even_if_it_will_not_listen",
    "tests/edge_client/detection/test_sensitivity.py",
    "tests/edge_client/features/test_sounds.py::test_a_device_hears_what_it_was_taught_and_nothing_else[sounds_2s]",
    "tests/edge_client/learning/teaching/test_job.py",
    "tests/edge_client/model/test_runtime.py::test_memory_stays_small_and_the_library_needs_nothing_of_any_package",
    f"{_HEAD_JOB}::test_the_same_clips_give_the_same_head_whatever_was_taught_before",
    f"{_HEAD_JOB}::test_what_the_owner_says_is_not_a_label_is_no_longer_taken_for_it",
    f"{_HEAD_JOB}::test_after_a_round_a_device_without_clips_learns_what_is_no_label",
)


def device_tests(system: System, everything: tuple[str, ...] = ("",)) -> list[str]:
    """Return the modules that are run in a system's root, from where the checkout is there.

    Args:
        system: the system.
        everything: files and folders of what is run where everything is; elsewhere no others are.
    """
    folder = CHECKOUT / "tests"
    found = [path for name in FOLDERS for path in sorted((folder / name).rglob("test_*.py"))]
    others = {path for path in found if FOREIGN.search(path.read_text(encoding="utf-8"))}
    others |= {path for path in found for name in PLAIN_PYTHON if path.is_relative_to(folder / name)}
    others |= {folder / name for name in NOT_ON_A_DEVICE}
    selection = SELECTIONS.get((system.suite, system.architecture), everything)
    chosen = [folder / name for name in selection if name in everything or everything == ("",)]
    found += [folder / name for name in ALSO]
    return [
        str(path.relative_to(CHECKOUT))
        for path in found
        if path not in others and any(path.is_relative_to(name) for name in chosen)
    ]


def build_roots(systems: list[System], *, installed: bool = False) -> list[System]:
    """Build what is not there yet, roots to run programs in or to install packages in, and say how long it took.

    Returns:
        The systems that are ready. All but the first may be missing, with a notice: not every mirror has them.
    """
    start = time.monotonic()
    machine.require()
    ready = []
    for system in systems:
        root = system.installed if installed else system.folder
        try:
            debian.build(root, system)
        except machine.MirrorError as error:
            if not ready:
                raise
            print(f"NOTICE: nothing is tested on {system} here: {error}", file=sys.stderr, flush=True)
            continue
        if not installed:
            from tests.arm import packages  # roots of Debian alone are built by a Python that has nothing installed

            packages.install(system, CHECKOUT)
        (root / "etc" / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")  # Debian leaves it to others
        print(f"{root} is ready after {time.monotonic() - start:.0f} s", flush=True)
        ready.append(system)
    return ready


def prepare() -> None:
    """Have this machine build the bundles, and train them with Keras on the batches of the parity check."""
    start = time.monotonic()
    machine.run(sys.executable, "-m", "tests.support.parity_references", cwd=CHECKOUT)
    # Their fixtures build what a root cannot: the checkout is there to be read alone, without Keras and espeak-ng.
    built_here = "tests/edge_client/features/test_embedding.py"
    machine.run(sys.executable, "-m", "pytest", "--setup-only", built_here, cwd=CHECKOUT)
    print(f"bundles and their references are ready after {time.monotonic() - start:.0f} s", flush=True)


def test(system: System, *options: str) -> int:
    """Run tests in a system's root; return pytest's status."""
    everything, chosen = ("",), ""
    if options == ("computes",):
        options, everything, chosen = (), ON_PROCESSOR, f"not {LARGER_NETWORKS}"
    tests = options or device_tests(system, everything)
    pytest = ["python", "-m", "pytest", "-p", "no:cacheprovider", "--timeout=1200", *tests]
    pytest += [f"--deselect={name}" for name in NOT_UNDER_EMULATION]
    if not options:
        pytest += ["--durations=10", "-k", chosen]
    recordings = Path(os.environ.get("AURICLE_DATA", CHECKOUT.parent / "shared" / "data"))
    # Hypothesis takes CI as a sign to be patient with slow machines.
    environment = {
        "PYTHONPATH": "/mnt",
        "PYTHONPYCACHEPREFIX": "/var/cache/python",
        "CI": "true",
        "AURICLE_TESTS_EMULATED": "1",
    }
    shell = ["sh", "-c", 'cd /mnt && exec "$@"', "sh"]
    if recordings.is_dir():
        environment["AURICLE_DATA"] = "/srv"
    given = recordings if recordings.is_dir() else None
    command = machine.enter(system.folder, *shell, *pytest, sources=CHECKOUT, recordings=given, **environment)
    return subprocess.run(command, check=False).returncode


def live(systems: list[System]) -> int:
    """Take the Debian packages through their life in the systems' roots; return 0."""
    from tests.arm import installed

    with tempfile.TemporaryDirectory() as folder:
        architectures = sorted({system.architecture for system in systems})
        machine.run(sys.executable, "-m", "deb", *architectures, "--output", folder, cwd=CHECKOUT)
        for system in systems:
            start = time.monotonic()
            (package,) = Path(folder).glob(f"*_{system.architecture}.deb")
            installed.live(system.installed, package, another_kernel=system.architecture == "armhf")
            print(f"the package's life on {system} took {time.monotonic() - start:.0f} s", flush=True)
    return 0


def main(arguments: list[str]) -> int:
    """`root` and `debian` only build the roots to run programs and to install packages in.

    `deb` takes the Debian packages through their life. `computes` leaves out, on Debian 12 for armhf as elsewhere, what
    is the same on every processor, and the larger networks. Else arguments are pytest's, in place of all of the
    device's tests. Names before these, such as `trixie`, `armhf` or `trixie-armhf`, choose among the systems, of which
    all but the first may be missing.
    """
    chosen: list[System] = []
    while arguments and (
        named := [
            one for one in SYSTEMS if arguments[0] in (one.suite, one.architecture, f"{one.suite}-{one.architecture}")
        ]
    ):
        chosen, arguments = [*chosen, *named], arguments[1:]
    systems = chosen or list(SYSTEMS)
    try:
        systems = build_roots(systems, installed=arguments in (["debian"], ["deb"]))
        if arguments in (["debian"], ["root"]):
            return 0
        if arguments == ["deb"]:
            return live(systems)
        prepare()
        status = 0
        for system in systems:
            start = time.monotonic()
            status = test(system, *arguments) or status
            print(f"tests on {system} took {time.monotonic() - start:.0f} s", flush=True)
    except machine.ArmError as error:
        print(f"tests.arm: {error}", file=sys.stderr)
        return CANNOT if isinstance(error, machine.UnsuitableMachineError) else 1
    return status


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main(sys.argv[1:]))
