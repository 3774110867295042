"""The self-test passes, and refuses a library that computes wrongly before a device uses it."""

import os
import shutil
import subprocess

import pytest

from edge_client.model.library_file import VARIABLE, library_path
from edge_client.model.self_test import check_runtime
from tests.support.checkout import run_module


def test_the_library_computes_what_is_known():
    check_runtime()


# A library of all functions of the real one, but for one: each third result of a graph is off by a thousandth.
WRONG = """
#include <dlfcn.h>
#include <stddef.h>
typedef int (*invoke)(void *);
typedef const void *(*output)(const void *, const char *);
typedef void *(*data)(const void *);
int TfLiteSignatureRunnerInvoke(void *runner) {
    int status = ((invoke)dlsym(RTLD_NEXT, "TfLiteSignatureRunnerInvoke"))(runner);
    const void *tensor = ((output)dlsym(RTLD_NEXT, "TfLiteSignatureRunnerGetOutputTensor"))(runner, "probabilities");
    if (tensor) ((float *)((data)dlsym(RTLD_NEXT, "TfLiteTensorData"))(tensor))[1] += FAULT;
    return status;
}
"""


@pytest.fixture(scope="module")
def wrong_library(tmp_path_factory):
    if shutil.which("gcc") is None:
        pytest.skip("gcc, which builds a wrong library, is not installed")
    folder = tmp_path_factory.mktemp("wrong")
    shutil.copy(library_path(), folder / library_path().name)
    (folder / "wrong.c").write_text("#define _GNU_SOURCE\n" + WRONG)

    def build(fault):
        path = folder / f"wrong{len(list(folder.glob('wrong*.so')))}.so"
        command = ["gcc", f"-DFAULT={fault}", "-shared", "-fPIC", "-o", path, folder / "wrong.c", "-ldl"]
        command += ["-Wl,--no-as-needed", f"-L{folder}", f"-l:{library_path().name}", f"-Wl,-rpath,{folder}"]
        subprocess.run(command, check=True)
        return path

    return build


def started(tmp_path, bundle, library):
    """Start a daemon with a library; return what its command line says."""
    config = tmp_path / "edge.toml"
    config.write_text(f'[device]\nname = "x"\nstate = "state"\n[model]\nbundle = "{bundle}"\n')
    return run_module("edge_client.cli", "run", "--config", config, env=os.environ | {VARIABLE: str(library)})


def test_a_device_does_not_start_with_a_library_that_computes_wrongly(tmp_path, bundles, wrong_library):
    library = wrong_library(0.01)
    found = started(tmp_path, bundles["cnn1"], library)
    assert found.returncode == 1
    assert f"({library}, SHA-256 " in found.stderr
    assert "computes wrongly on this machine: a probability after one training step is" in found.stderr
    assert "install the runtime anew" in found.stderr
    assert "Traceback" not in found.stderr


def test_a_number_that_is_none_is_wrong_too(tmp_path, bundles, wrong_library):
    assert (
        "a probability after one training step is nan"
        in started(tmp_path, bundles["cnn1"], wrong_library("(0.0f/0.0f)")).stderr
    )
