"""``backup``, ``restore``, ``check``, ``doctor``, ``move`` and ``audit``: look after the state of a fleet."""

import argparse
import time
from dataclasses import asdict
from pathlib import Path

from aggregator_server.commands import Commands, add_data, add_json, location_of, show, tables_of, tell
from aggregator_server.errors import BackupError


def add(commands: Commands) -> None:
    """Add the commands."""
    audit = commands.add_parser("audit", help="list what happened to the fleet, newest first")
    audit.add_argument("--limit", type=int, default=100, metavar="N", help="at most so many entries (100)")
    audit.add_argument("--before", type=int, metavar="NUMBER", help="only entries with a smaller number")
    audit.add_argument("--what", metavar="KIND", help="only entries of this kind, like device_enrolled")
    backup = commands.add_parser("backup", help="copy a data folder into a file; the server may run")
    backup.add_argument("file", type=Path, help="file to make; it holds the tokens: keep it as safe as the folder")
    said = "FILE is a folder: make a copy in it that is named by the time, and keep the newest N"
    backup.add_argument("--keep", type=int, metavar="N", help=said)
    restore = commands.add_parser("restore", help="make a data folder from a backup")
    restore.add_argument("file", type=Path, help="what `backup` made")
    check = commands.add_parser("check", help="look for damage in a data folder; exits with 2 where there is any")
    check.add_argument("--repair", action="store_true", help="mend what needs no backup; the server must be stopped")
    doctor = commands.add_parser(
        "doctor", help="look at server, disk, certificate and devices; exits with 1 where there is a problem"
    )
    move = commands.add_parser(
        "move", help="move a fleet to PostgreSQL and an object store, or back; the server must be stopped"
    )
    said = "a new data folder, or a database and a store: postgresql://user@host/auricle s3://bucket/prefix"
    move.add_argument("--to", nargs="+", required=True, metavar="PLACE", help=said)
    runs = {audit: _audit, backup: _backup, restore: _restore, check: _check, doctor: _doctor, move: _move}
    for command, run in runs.items():
        add_data(command)
        add_json(command)
        command.set_defaults(run=run)


def _backup(options: argparse.Namespace) -> int:
    from aggregator_server.upkeep.backup import back_up, back_up_into  # heavy: SQLAlchemy

    file: Path = options.file
    try:
        if options.keep is None:
            back_up(location_of(options), file)
        else:
            file = back_up_into(location_of(options), file, options.keep, time.time())
        size = file.stat().st_size
    except OSError as error:
        raise BackupError(f"{options.data} could not be backed up to {options.file}: {error}") from error
    tell(options, {"file": str(file), "bytes": size}, f"{file}: {size / 1e6:.1f} MB")
    return 0


def _restore(options: argparse.Namespace) -> int:
    from aggregator_server.upkeep.backup import restore

    data: Path = options.data
    try:
        restore(options.file, location_of(options))
    except OSError as error:
        raise BackupError(f"{options.file} could not be restored to {data}: {error}") from error
    tell(options, {"data": str(data)}, f"{data} is ready: auricle-aggregator run --data {data}")
    return 0


def _check(options: argparse.Namespace) -> int:
    from aggregator_server.upkeep.check import check

    found = check(location_of(options), repair=options.repair)
    lines = [
        "repaired: " * finding.repaired + "; ".join(filter(None, (finding.what, finding.way_out))) for finding in found
    ]
    lines.append(f"{len(found)} findings" if found else "nothing is damaged")
    tell(options, [asdict(finding) for finding in found], "\n".join(lines))
    return 2 if any(not finding.repaired for finding in found) else 0


def _doctor(options: argparse.Namespace) -> int:
    from aggregator_server.upkeep.doctor import examine

    found = examine(location_of(options), time.time())
    show(found, ("subject", "state", "what", "way_out"), as_json=options.json)
    return 1 if any(observation.state == "problem" for observation in found) else 0


def _move(options: argparse.Namespace) -> int:
    from aggregator_server.upkeep.move import move, target_of

    source = location_of(options)
    target = target_of(options.to, source)
    try:
        to, size = move(source, target)
    except OSError as error:
        raise BackupError(f"{options.data} could not be moved: {error}") from error
    run = f"Run it there: auricle-aggregator run --data {target.data}"
    tell(options, {"to": to, "bytes": size}, f"{to} has all rows and arrays ({size / 1e6:.1f} MB).\n{run}")
    return 0


def _audit(options: argparse.Namespace) -> int:
    from aggregator_server.fleet.audit import list_entries

    found = list_entries(tables_of(options), options.before, options.limit, options.what)
    show(found, ("audit_id", "at", "who", "address", "what", "details"), as_json=options.json)
    return 0
