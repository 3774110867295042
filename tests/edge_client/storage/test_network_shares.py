"""A state folder on a network share that lacks what programs need to use a file together: said, with the way out."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.support.checkout import ROOT, run_module
from tests.support.sounds import write_clips

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc, which builds a share without locks, is not installed"),
]
# As NFS without a lock daemon; and as CIFS, 9p and some of FUSE, which cannot map memory for all programs to write.
SHARES = {
    "locks": "int flock(int fd, int op) { errno = ENOLCK; return -1; }",
    "memory": """
void *mmap64(void *at, size_t size, int protection, int flags, int fd, off64_t from) {
    if ((flags & MAP_SHARED) && (protection & PROT_WRITE) && fd >= 0) { errno = ENODEV; return MAP_FAILED; }
    return (void *)syscall(SYS_mmap, at, size, protection, flags, fd, from);
}
void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t from) {
    return mmap64(at, size, protection, flags, fd, from);
}
""",
}
HEADERS = ("errno.h", "sys/mman.h", "sys/syscall.h", "sys/types.h", "unistd.h")


def on_share(folder, lacks) -> dict[str, str]:
    """The environment of a program whose disks are such a share."""
    source = "#define _GNU_SOURCE\n" + "".join(f"#include <{name}>\n" for name in HEADERS) + SHARES[lacks]
    (folder / "share.c").write_text(source)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / "share.so", folder / "share.c"], check=True)
    return os.environ | {"LD_PRELOAD": str(folder / "share.so")}


def test_a_share_without_locks_is_named_with_the_way_out(tmp_path):
    (tmp_path / "edge.toml").write_text('[device]\nname = "x"\nstate = "state"\n[model]\nbundle = "base"\n')
    write_clips(tmp_path / "new", "stop", 2, seed=1)
    arguments = ["import", tmp_path / "new", "--config", tmp_path / "edge.toml"]
    done = run_module("edge_client.cli", *arguments, env=on_share(tmp_path, "locks"))
    assert done.returncode == 1
    assert f"{tmp_path}/state" in done.stderr
    assert "is on a disk without locks, such as some network shares" in done.stderr
    assert "say so by [device] state" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("lacks", "code", "said"),
    [
        (
            "memory",
            "from edge_client.storage.database import Database; Database(path).set_note('x', 1)",
            "is on a disk without locks or shared memory, such as some network shares (disk I/O error)",
        ),
        (
            "locks",
            "from fleet_protocol.ground.atomic_files import write_durably; write_durably(path, b'x')",
            "on this disk, such as a network share; use one of this machine",
        ),
    ],
)
def test_what_cannot_be_written_there_names_the_folder_and_leaves_nothing_half_written(tmp_path, lacks, code, said):
    folder = tmp_path / "state"
    folder.mkdir()
    program = f"from pathlib import Path; path = Path({str(folder / 'file')!r}); {code}"
    environment = on_share(tmp_path, lacks)
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert said in last
    assert str(folder) in last
    assert not list(folder.glob(".*"))
