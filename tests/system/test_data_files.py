"""The files of a wheel that are no Python: all that Git knows, whatever other builds left in the checkout."""

import shutil
import tomllib

from tests.support.checkout import ROOT
from tests.support.packages import tracked_files

FOLDERS = ("examples/", "systemd/")


def test_what_another_build_left_in_the_checkout_is_no_data_file(tmp_path):
    tracked = [name for name in tracked_files() if name.startswith(FOLDERS)]
    for name in tracked:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    # As `pip install ./examples/own_strategy` and an editor leave them; setuptools copies no folders.
    for folder in {(tmp_path / name).parent for name in tracked}:
        for left in ("gentle.egg-info", "build", "__pycache__"):
            (folder / left).mkdir()
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["data-files"]
    found = [path for part in patterns.values() for pattern in part for path in tmp_path.glob(pattern)]
    assert all(path.is_file() for path in found)
    names = {str(path.relative_to(tmp_path)) for path in found}
    assert names == set(tracked)
