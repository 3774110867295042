"""What computes on a device and on an aggregator does so with the oldest NumPy that Auricle takes, and the newest."""

import os
import subprocess
import sys

import pytest

from tests.support.checkout import ROOT, kept, sources_digest
from tests.support.packages import PIP

pytestmark = pytest.mark.slow

# The first is that of Debian 12, and the lower end of pyproject.toml; Python 3.12 came later.
VERSIONS = ["1.24.0" if sys.version_info < (3, 12) else "1.26.0", "2.4.6"]
PARTS = (
    "aggregator_server/aggregation",
    "edge_client/audio",
    "edge_client/detection",
    "edge_client/features",
    "edge_client/learning/methods",
    "edge_client/learning/test_personalisation.py",
    "edge_client/model/test_runtime.py",
    "fleet_protocol/numbers/test_tensors.py",
)


# TensorFlow, which builds them, does not run with the oldest.
@pytest.mark.usefixtures("embedding_bundles")
@pytest.mark.parametrize("version", VERSIONS)
def test_device_and_aggregator_compute_with_numpy(version):
    def download(folder):
        subprocess.run([*PIP, "install", "--no-deps", "--target", folder, f"numpy=={version}"], check=True)

    folder = kept(f"numpy-{version}", sources_digest("tests/system/test_numpy_versions.py"), download)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
    python = [sys.executable, "-c", "import numpy; print(numpy.__version__)"]
    assert subprocess.run(python, env=environment, text=True, stdout=subprocess.PIPE).stdout.strip() == version
    # What only tests import is built for one NumPy.
    pytest_ = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow"]
    chosen = ["-k", "not python_speech_features and not flower"]
    parts = [f"tests/{part}" for part in PARTS]
    done = subprocess.run([*pytest_, *chosen, *parts], cwd=ROOT, env=environment, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
