"""`make test-armv7`: the device's tests and the parity of every bundle on 32-bit ARM, under emulation.

All of them run on Debian 12, and on Debian 13 those that another Python and NumPy 2 may change. The roots are kept in
build/armv7-root and build/armv7-root-trixie. Status: 0 where all is well, 77 where this machine cannot run ARM
programs. Emulation shows what is correct and what fits into memory, never how quick it is.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.armv7 import debian, machine

CHECKOUT = Path(__file__).resolve().parent.parent.parent
ROOTS = {"bookworm": CHECKOUT / "build" / "armv7-root", "trixie": CHECKOUT / "build" / "armv7-root-trixie"}
CANNOT = 77

# Whatever tests a device's packages is run, so that nobody can forget to name a new module here,
FOLDERS = ("edge_client", "fleet_protocol")
# and what else a device runs.
ALSO = ("benchmarks/test_parity.py", "benchmarks/test_pi.py")
# Not run there: what a user reads and writes. It is plain Python, the same on every processor, often of optional extras
# that a board does without, and its tests start commands, each of which takes seconds under emulation.
PLAIN_PYTHON = tuple(
    f"edge_client/{name}"
    for name in ("commands", "config", "events", "live", "owner_page", "voice", "test_api.py", "test_cli.py")
)
# A module that imports one of these tests something else than a device;
FOREIGN = re.compile(
    r"^(?:from|import) (?:aggregator_server|fleet_simulator|model_export|flwr|benchmarks(?!\.(?:parity|pi)\b)|"
    r"tests\.support\.(?:core_fleet|device_fleet|simulated_fleet|update_sets)\b)",
    re.MULTILINE,
)
# and of these one needs an aggregator by its fixtures, the others start programs of other machines.
NOT_ON_A_DEVICE = (
    "edge_client/daemon/test_round_loop.py",
    "fleet_protocol/test_extras.py",
    "fleet_protocol/test_programs_ends.py",
)

# What is run on Debian 13 as well: what computes. Files and processes are the same there.
ON_TRIXIE = (
    "edge_client/audio",
    "edge_client/detection",
    "edge_client/features",
    "edge_client/learning/methods",
    "edge_client/learning/personalisations",
    "edge_client/model",
    "fleet_protocol/test_tensors.py",
)
# tflite-runtime is there to compare bytes with; its parity with Keras is tested on x86-64.
PARITY_OF_ANOTHER_RUNTIME = "not (test_parity and tflite)"

# How quick emulation is, and how much memory the emulator itself takes, says nothing about a board. A lesson of a head
# takes a minute there, a lesson of a network minutes: test_head.py has two of the first kind, and `make test-pi`
# has a whole board learn.
_HEAD_JOB = "tests/edge_client/learning/teaching/test_head.py"
NOT_UNDER_EMULATION = (
    "tests/edge_client/daemon/test_daemon_parts.py::test_training_is_killed_at_its_deadline_even_if_it_will_not_listen",
    "tests/edge_client/learning/teaching/test_job.py",
    "tests/edge_client/speech/test_training.py::test_ten_utterances_are_learned_without_an_error",
    f"{_HEAD_JOB}::test_the_same_clips_give_the_same_head_whatever_was_taught_before",
    f"{_HEAD_JOB}::test_what_the_owner_says_is_not_a_label_is_no_longer_taken_for_it",
    f"{_HEAD_JOB}::test_after_a_round_a_device_without_clips_learns_what_is_no_label",
)


def device_tests(suite: str) -> list[str]:
    """Return the modules that are run in a suite's root, from where the checkout is there."""
    folder = CHECKOUT / "tests"
    found = [path for name in FOLDERS for path in sorted((folder / name).rglob("test_*.py"))]
    others = {path for path in found if FOREIGN.search(path.read_text(encoding="utf-8"))}
    others |= {path for path in found for name in PLAIN_PYTHON if path.is_relative_to(folder / name)}
    others |= {folder / name for name in NOT_ON_A_DEVICE}
    if suite == "trixie":
        again = [folder / name for name in ON_TRIXIE]
        return [
            str(path.relative_to(CHECKOUT))
            for path in found
            if path not in others and any(path.is_relative_to(name) for name in again)
        ]
    return [
        str(path.relative_to(CHECKOUT)) for path in (*found, *(folder / name for name in ALSO)) if path not in others
    ]


def build_roots(suites: list[str], *, environment: bool = True) -> list[str]:
    """Build what is not there yet, Debian alone or the Python environment in it too, and say how long it took.

    Returns:
        The suites that are ready. Debian 13 may be missing beside Debian 12, with a notice: not every mirror has it.
    """
    start = time.monotonic()
    machine.require()
    ready = []
    for suite in suites:
        root = ROOTS[suite]
        try:
            debian.build(root, suite)
        except machine.MirrorError as error:
            if not ready:
                raise
            print(f"NOTICE: nothing is tested on Debian {suite} here: {error}", file=sys.stderr, flush=True)
            continue
        if environment:
            from deb.wheels import ARMHF  # Debian alone is built by a Python that has nothing installed
            from tests.armv7 import packages

            packages.install(root, CHECKOUT, next(target for target in ARMHF if target.python == debian.SUITES[suite]))
        (root / "etc" / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")  # debootstrap leaves it to others
        print(f"{root} is ready after {time.monotonic() - start:.0f} s", flush=True)
        ready.append(suite)
    return ready


def prepare() -> None:
    """Have this machine build the bundles, and train them with Keras on the batches of the parity check."""
    start = time.monotonic()
    machine.run(sys.executable, "-m", "tests.support.parity_references", cwd=CHECKOUT)
    built_here = ("tests/edge_client/features/test_embedding.py", "tests/edge_client/speech/test_training.py")
    machine.run(sys.executable, "-m", "pytest", "--setup-only", *built_here, cwd=CHECKOUT)  # their fixtures build
    print(f"bundles and their references are ready after {time.monotonic() - start:.0f} s", flush=True)


def test(suite: str, *options: str) -> int:
    """Run tests in a suite's root; return pytest's status."""
    pytest = ["python", "-m", "pytest", "-p", "no:cacheprovider", "--timeout=1200", *(options or device_tests(suite))]
    pytest += [f"--deselect={name}" for name in NOT_UNDER_EMULATION]
    if not options:
        pytest += ["-k", PARITY_OF_ANOTHER_RUNTIME]
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
    command = machine.enter(ROOTS[suite], *shell, *pytest, sources=CHECKOUT, recordings=given, **environment)
    return subprocess.run(command, check=False).returncode


def live(suites: list[str]) -> int:
    """Take the Debian package through its life in the suites' roots; return 0."""
    from tests.armv7 import installed

    with tempfile.TemporaryDirectory() as folder:
        machine.run(sys.executable, "-m", "deb", "armhf", "--output", folder, cwd=CHECKOUT)
        (package,) = Path(folder).glob("*.deb")
        for suite in suites:
            start = time.monotonic()
            installed.live(ROOTS[suite], package, another_kernel=True)
            print(f"the package's life on Debian {suite} took {time.monotonic() - start:.0f} s", flush=True)
    return 0


def main(arguments: list[str]) -> int:
    """`debian` and `root` only build the roots, `deb` installs the Debian package in them.

    Else arguments are pytest's, in place of all of the device's tests.

    A suite's name before pytest's arguments chooses its root alone.
    """
    suites = [arguments.pop(0)] if arguments and arguments[0] in ROOTS else list(ROOTS)
    try:
        suites = build_roots(suites, environment=arguments not in (["debian"], ["deb"]))
        if arguments in (["debian"], ["root"]):
            return 0
        if arguments == ["deb"]:
            return live(suites)
        prepare()
        status = 0
        for suite in suites:
            start = time.monotonic()
            status = test(suite, *arguments) or status
            print(f"tests on ARMv7, Debian {suite}, took {time.monotonic() - start:.0f} s", flush=True)
    except machine.Armv7Error as error:
        print(f"test-armv7: {error}", file=sys.stderr)
        return CANNOT if isinstance(error, machine.UnsuitableMachineError) else 1
    return status


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main(sys.argv[1:]))
