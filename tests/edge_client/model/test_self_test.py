"""The self-test passes, and refuses a library that computes wrongly before a device uses it."""

import os
import shutil
import subprocess

import pytest

from edge_client.model.library_file import VARIABLE, library_path
from edge_client.model.self_test import check_runtime
from tests.support.checkout import run_module
from tests.support.edge_process import EdgeDaemon


def test_the_library_computes_what_is_known():
    check_runtime()


# A library of all functions of the real one, but for one: each third result of a graph is off by a thousandth.
WRONG = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
typedef int (*invoke)(void *);
typedef const void *(*output)(const void *, const char *);
typedef void *(*data)(const void *);
int TfLiteSignatureRunnerInvoke(void *runner) {
    int status = ((invoke)dlsym(RTLD_NEXT, "TfLiteSignatureRunnerInvoke"))(runner);
    const void *tensor = ((output)dlsym(RTLD_NEXT, "TfLiteSignatureRunnerGetOutputTensor"))(runner, "probabilities");
    if (tensor) ((float *)((data)dlsym(RTLD_NEXT, "TfLiteTensorData"))(tensor))[1] += 0.01;
    return status;
}
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc, which builds a wrong library, is not installed")
def test_a_device_does_not_start_with_a_library_that_computes_wrongly(tmp_path):
    library = tmp_path / "wrong.so"
    shutil.copy(library_path(), tmp_path)
    (tmp_path / "wrong.c").write_text(WRONG)
    command = ["gcc", "-shared", "-fPIC", "-o", library, tmp_path / "wrong.c", "-ldl", "-Wl,--no-as-needed"]
    subprocess.run([*command, f"-L{tmp_path}", f"-l:{library_path().name}", f"-Wl,-rpath,{tmp_path}"], check=True)
    config = EdgeDaemon(tmp_path, "cnn1", "").config
    found = run_module("edge_client.cli", "run", "--config", config, env=os.environ | {VARIABLE: str(library)})
    assert found.returncode == 1
    assert f"({library}, SHA-256 " in found.stderr
    assert "computes wrongly on this machine: a probability after one training step is" in found.stderr
    assert "install the runtime anew" in found.stderr
    assert "Traceback" not in found.stderr
