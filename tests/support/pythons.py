"""Other Pythons of this machine that Auricle runs on, from Debian or pyenv."""

import shutil
import subprocess
import sys
from pathlib import Path

_MINORS = (11, 12, 13, 14)


def other_pythons() -> list[Path]:
    """Return one Python of each other version that this machine has, the oldest first."""
    return [found for minor in _MINORS if minor != sys.version_info.minor and (found := _python(f"3.{minor}"))]


def version(python: Path) -> str:
    """Return the version of a Python, such as `3.13`."""
    code = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", code], text=True, capture_output=True, check=False)
    return done.stdout.strip()


def _python(wanted: str) -> Path | None:
    """Return a Python of a version that can make environments; pyenv puts names on the path that run nothing."""
    on_path = shutil.which(f"python{wanted}")
    own = sorted(Path.home().glob(f".pyenv/versions/{wanted}.*/bin/python"))
    candidates = [*([Path(on_path)] if on_path else []), *own]
    return next((python for python in candidates if version(python) == wanted), None)
