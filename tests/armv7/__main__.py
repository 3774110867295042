"""`make test-armv7`: the device's tests and the parity of every bundle on 32-bit ARM, under emulation.

The root is kept in build/armv7-root. Status: 0 where all is well, 77 where this machine cannot run ARM programs.
Emulation shows what is correct and what fits into memory, never how quick it is.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from tests.armv7 import debian, machine

CHECKOUT = Path(__file__).resolve().parent.parent.parent
ROOT = CHECKOUT / "build" / "armv7-root"
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

# How quick emulation is, and how much memory the emulator itself takes, says nothing about a board. A lesson of a head
# takes a minute there, a lesson of a network minutes: test_head_job.py has two of the first kind, and `make test-pi`
# has a whole board learn.
_HEAD_JOB = "tests/edge_client/learning/teaching/test_head_job.py"
NOT_UNDER_EMULATION = (
    "tests/edge_client/daemon/test_daemon_parts.py::test_training_is_killed_at_its_deadline_even_if_it_will_not_listen",
    "tests/edge_client/learning/teaching/test_job.py",
    "tests/edge_client/speech/test_training.py::test_ten_utterances_are_learned_without_an_error",
    f"{_HEAD_JOB}::test_the_same_clips_give_the_same_head_whatever_was_taught_before",
    f"{_HEAD_JOB}::test_what_the_owner_says_is_not_a_label_is_no_longer_taken_for_it",
    f"{_HEAD_JOB}::test_after_a_round_a_device_without_clips_learns_what_is_no_label",
)


def device_tests() -> list[str]:
    """Return the modules that are run in the root, from where the checkout is there."""
    folder = CHECKOUT / "tests"
    found = [path for name in FOLDERS for path in sorted((folder / name).rglob("test_*.py"))]
    others = {path for path in found if FOREIGN.search(path.read_text(encoding="utf-8"))}
    others |= {path for path in found for name in PLAIN_PYTHON if path.is_relative_to(folder / name)}
    others |= {folder / name for name in NOT_ON_A_DEVICE}
    return [
        str(path.relative_to(CHECKOUT)) for path in (*found, *(folder / name for name in ALSO)) if path not in others
    ]


def build_root(*, environment: bool = True) -> None:
    """Build what is not there yet, Debian alone or the Python environment in it too, and say how long it took."""
    start = time.monotonic()
    machine.require()
    debian.build(ROOT)
    if environment:
        from tests.armv7 import packages  # Debian alone is built by a Python that has nothing installed

        packages.install(ROOT, CHECKOUT)
    (ROOT / "etc" / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")  # which debootstrap leaves to others
    print(f"{ROOT} is ready after {time.monotonic() - start:.0f} s", flush=True)


def prepare() -> None:
    """Have this machine build the bundles, and train them with Keras on the batches of the parity check."""
    start = time.monotonic()
    machine.run(sys.executable, "-m", "tests.support.parity_references", cwd=CHECKOUT)
    built_here = ("tests/edge_client/features/test_embedding.py", "tests/edge_client/speech/test_training.py")
    machine.run(sys.executable, "-m", "pytest", "--setup-only", *built_here, cwd=CHECKOUT)  # their fixtures build
    print(f"bundles and their references are ready after {time.monotonic() - start:.0f} s", flush=True)


def test(*options: str) -> int:
    """Run the tests in the root; return pytest's status."""
    pytest = ["python", "-m", "pytest", "-p", "no:cacheprovider", "--timeout=1200", *(options or device_tests())]
    pytest += [f"--deselect={name}" for name in NOT_UNDER_EMULATION]
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
    command = machine.enter(
        ROOT, *shell, *pytest, sources=CHECKOUT, recordings=recordings if recordings.is_dir() else None, **environment
    )
    return subprocess.run(command, check=False).returncode


def main(arguments: list[str]) -> int:
    """`debian` and `root` only build the root; else arguments are pytest's, in place of all of the device's tests."""
    try:
        build_root(environment=arguments != ["debian"])
        if arguments in (["debian"], ["root"]):
            return 0
        prepare()
        start = time.monotonic()
        status = test(*arguments)
        print(f"tests on ARMv7 took {time.monotonic() - start:.0f} s", flush=True)
    except machine.Armv7Error as error:
        print(f"test-armv7: {error}", file=sys.stderr)
        return CANNOT if isinstance(error, machine.UnsuitableMachineError) else 1
    return status


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main(sys.argv[1:]))
