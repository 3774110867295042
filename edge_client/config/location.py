"""Where the configuration of a command is: named, or searched for."""

import os
from pathlib import Path

from edge_client.errors import ConfigError

# Environment variable that names the configuration of every command.
VARIABLE = "AURICLE_CONFIG"
# Where `make install-edge` puts the configuration.
SERVICE_CONFIG = Path("/etc/auricle/edge.toml")
# Searched for in the folder in which a command is typed.
LOCAL_CONFIG = Path("edge.toml")


def find_config(given: Path | None) -> Path:
    """Return the file that ``--config`` or AURICLE_CONFIG names, else the one in this folder, else the service's.

    Raises ConfigError if it is not there, or the one in this folder is a stranger's; names the places and the way out.
    """
    named = _named(given)
    if named is not None:
        return _existing(*named)
    # A folder into which this user may not read, as another one's home under `sudo -u`, has none for it.
    if os.access(LOCAL_CONFIG, os.F_OK):
        _refuse_a_strangers(LOCAL_CONFIG)
        return LOCAL_CONFIG
    if SERVICE_CONFIG.exists():
        return SERVICE_CONFIG
    raise ConfigError(
        f"there is no configuration: neither {LOCAL_CONFIG} in this folder, {Path.cwd()}, nor {SERVICE_CONFIG}, and "
        f"{VARIABLE} is not set; write one: auricle-edge init; or name one: --config FILE"
    )


def new_config(given: Path | None) -> Path:
    """Return where a new configuration is written: the file that was named, else ``edge.toml`` in this folder."""
    named = _named(given)
    return LOCAL_CONFIG if named is None else named[0]


def config_option(path: Path) -> str:
    """Return what a command typed in this folder needs to use a configuration: "" where it would find it by itself."""
    try:
        found = find_config(None)
    except ConfigError:
        found = None
    return "" if found is not None and found.absolute() == path.absolute() else f" --config {path}"


def _named(given: Path | None) -> tuple[Path, str] | None:
    """Return the file that was named, and by what; None: it has to be searched for."""
    if given is not None:
        return given, "--config"
    variable = os.environ.get(VARIABLE)
    return (Path(variable), VARIABLE) if variable else None


def _existing(path: Path, by: str) -> Path:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ConfigError(
            f"there is no configuration {path}, which {by} names; write it: auricle-edge init --config {path}"
        ) from error
    return path


def _refuse_a_strangers(path: Path) -> None:
    """Refuse a file that others put into a folder which they share with this user: it can name programs to run."""
    owner = path.stat().st_uid
    if owner not in (0, os.geteuid()) and str(owner) != os.environ.get("SUDO_UID"):
        raise ConfigError(
            f"{path} in this folder, {Path.cwd()}, belongs to another user, who could have this one run programs; "
            f"if it is meant: --config {path}; the service's: --config {SERVICE_CONFIG}"
        )
