"""``new``, ``publish`` and ``publish-model``: start a fleet from recordings; send a running server its material."""

import argparse
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from aggregator_server.commands import Commands, add_json, add_state, duration, location_of
from aggregator_server.commands.run import add_listening, listening_of, options_of_run
from aggregator_server.commands.targets import add_server, connect
from aggregator_server.errors import AggregatorError, ServerError, StartError
from aggregator_server.schemas import InvitationRequest
from aggregator_server.server_address import make_link
from aggregator_server.store.location import Location
from aggregator_server.web.listening import Listening
from fleet_protocol.bounded_files import read_bounded
from fleet_protocol.bundle.ready_bundles import FIRST_CHOICE, find_bundle
from fleet_protocol.errors import AuricleError
from fleet_protocol.ground.own_python import python
from fleet_protocol.limits import MODEL_BYTES, PUBLIC_SET_BYTES

# The device's program, which computes features; the server imports nothing of it.
EDGE, _NEEDED = "edge_client.cli", ("httpx", "soundfile")


def add(commands: Commands) -> None:
    """Add the commands."""
    _add_publish(commands)
    new = commands.add_parser("new", help="start a fleet from recordings: public set, model and invitation")
    new.add_argument(
        "--from", dest="source", type=Path, required=True, metavar="FOLDER", help="recordings as LABEL/*.wav"
    )
    new.add_argument("--data", type=Path, default=Path("fleet"), help="data folder to make (fleet)")
    new.add_argument("--per-label", default="auto", metavar="N", help="clips of each label (all that the rarest has)")
    new.add_argument(
        "--bundle", default=FIRST_CHOICE, metavar="NAME|FILE", help=f"what devices start with ({FIRST_CHOICE})"
    )
    new.add_argument("--devices", type=int, default=10, metavar="N", help="how many the invitation lets in (10)")
    new.add_argument("--expires", type=duration, default="30d", metavar="TIME", help="of the invitation (30d)")
    add_state(new)
    add_listening(new)
    add_json(new)
    new.set_defaults(run=_new)


def _new(options: argparse.Namespace) -> int:
    bundle, listening = find_bundle(options.bundle), listening_of(options)
    place = location_of(options)
    _check(place, listening)
    with tempfile.TemporaryDirectory(prefix="auricle-") as folder:
        public_set = Path(folder) / "public.safetensors"
        said = _make_public_set(options, bundle, public_set)
        link = _start_fleet(options, listening, public_set, bundle)
    data, run = options.data, f"auricle-aggregator run --data {options.data}{options_of_run(options)}"
    join, start = f"auricle-edge join {link} --recordings FOLDER --run", f"auricle-aggregator round start --data {data}"
    if options.json:
        print(json.dumps({"data": str(data), "link": link, "run": run, "join": join, "round": start}))
        return 0
    print(f"{data}: a fleet that knows {said}\n\n  {run}\n\nOn each device, with a folder of its own recordings:\n")
    print(f"  {join}\n\nOnce they are there:\n\n  {start} --learned")
    another = f"auricle-aggregator invite --devices {options.devices} --data {data}"
    print(f"(where the link is lost, make another: {another})", file=sys.stderr)  # where nobody reads the output, too
    return 0


def _check(place: Location, listening: Listening) -> None:
    """Check what can be checked before the recordings are read."""
    data = place.data
    if data.exists() and (not data.is_dir() or any(data.iterdir())):
        raise StartError(f"--data {data} exists and is not empty; a new fleet needs a folder of its own")
    if place.database is not None:
        from aggregator_server.store.data_folder import why_not_meant  # heavy: SQLAlchemy

        if why_not_meant(place) is None:
            raise StartError(f"{place.tables_shown} holds a fleet; a new fleet needs a database of its own")
    if listening.port == 0:
        raise StartError("--port 0 takes another port at each start; name one, so that devices find the server again")
    if listening.tls_mode == "off" and listening.tls_cert is None:
        listening.require_privacy(listening.host)


def require_edge() -> None:
    """Check that the device's program can run here. Raises AggregatorError: it cannot, with what to install."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise AggregatorError(
            f"the library {' and '.join(missing)} is not installed; needs: pip install 'auricle[edge,server]'"
        )


def _make_public_set(options: argparse.Namespace, bundle: Path, output: Path) -> str:
    require_edge()
    given = ["--bundle", str(bundle), "--per-label", options.per_label, "-o", str(output)]
    command = python(EDGE, "public-set", options.source, *given)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AggregatorError(f"no public set: {done.stderr.strip().removeprefix('auricle-edge: ')}")
    return done.stdout.strip().rpartition(": ")[2]


def _start_fleet(options: argparse.Namespace, listening: Listening, public_set: Path, bundle: Path) -> str:
    """Make the data folder, or nothing where something is wrong; return the link of an invitation."""
    from aggregator_server.fleet.audit import COMMAND_LINE
    from aggregator_server.fleet.tokens import invite
    from aggregator_server.rounds.publishing import publish_model, publish_public_set
    from aggregator_server.store.opening import open_store

    store = open_store(location_of(options))
    try:
        for publish, file in ((publish_public_set, public_set), (publish_model, bundle)):
            with store.blobs.receive() as incoming:
                incoming.write(file.read_bytes())
                publish(store, incoming, COMMAND_LINE)
        listening.note(options.data, listening.certificate(options.data), options.host, options.port)
        wanted = InvitationRequest(devices=options.devices, expires_s=options.expires)
        return make_link(options.data, None)(invite(store, wanted, COMMAND_LINE, time.time()).token)
    except AuricleError:
        shutil.rmtree(options.data)  # it was not there, or empty
        raise
    finally:
        store.close()


def _add_publish(commands: Commands) -> None:
    publish = commands.add_parser("publish", help="send a public set to a running server")
    publish.add_argument("file", type=Path, help="the public set")
    publish.set_defaults(address="/v1/public-set", find=Path, most_bytes=PUBLIC_SET_BYTES)
    model = commands.add_parser("publish-model", help="send the fleet's shared model to a running server")
    model.add_argument(
        "file", metavar="bundle", help="file of a bundle, or name of a ready one (`auricle-export list`)"
    )
    model.set_defaults(address="/v1/model", find=find_bundle, most_bytes=MODEL_BYTES)
    for command in (publish, model):
        add_server(command)
        command.set_defaults(run=_publish)


def _publish(options: argparse.Namespace) -> int:
    file: Path = options.find(options.file)
    client = connect(options)
    try:
        answer = client.put(options.address, read_bounded(file, options.most_bytes))
    except OSError as error:
        raise AggregatorError(f"{file} could not be read: {error}") from error
    except ServerError as error:
        raise AggregatorError(f"{file} could not be published: {error}") from error
    print(json.dumps(answer))
    return 0
