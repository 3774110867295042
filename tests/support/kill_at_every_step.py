"""Close a round, or undo one, while being killed by SIGKILL at chosen lines; tests/system/test_restart.py runs it.

usage: python -m tests.support.kill_at_every_step DATA KILLS SEED [ACTION]

DATA holds a round whose last upload has arrived. It is copied; in each copy a forked process closes the round and is
killed when it has executed so many lines of aggregator_server; a second process then finishes. Prints one JSON object:
the undisturbed result, the number of lines, and every other result that was seen.

With an ACTION (``retire`` a class, or ``restore`` a round) DATA holds a round that is done. The second process finds
the state before the action, or the one after it, and nothing else.
"""

import json
import os
import random
import shutil
import signal
import sys
from pathlib import Path

import kmedoids  # noqa: F401  (imported once here, not in every forked process)

from aggregator_server.fleet.class_details import list_class_history
from aggregator_server.fleet.classes import list_classes
from aggregator_server.operator_changes.merge_and_retire import remove_class
from aggregator_server.operator_changes.restore_and_undo import restore_round
from aggregator_server.rounds.devices.work import next_work
from aggregator_server.rounds.lifecycle import advance
from aggregator_server.rounds.publishing import describe_public_set
from aggregator_server.rounds.replies import describe_round, list_rounds
from aggregator_server.rounds.retention import remove_left_uploads
from aggregator_server.store.opening import open_store
from aggregator_server.store.tables import RoundRow

PACKAGE = str(Path(sys.modules["aggregator_server"].__file__).parent)


def state_of(store):
    """Everything that an action changes, and that the files that rows name are there."""
    rounds = [describe_round(store, found.round_id) for found in list_rounds(store, None, 10)]
    with store.reading() as session:  # what the aggregation keeps for the next round
        kept = [session.get_one(RoundRow, found.summary.round_id).result_server_state for found in rounds]
    for found, state in zip(rounds, kept, strict=True):
        results = (found.result_public_set, found.result_consensus, found.result_weights, found.result_prototypes)
        for digest in filter(None, (*results, state)):
            store.blobs.read(digest)
    taken = [one for found in rounds for one in found.participants]
    work = [next_work(store, device_id, 500.0) for device_id in sorted({one.device_id for one in taken})]
    uploads = sorted({one.upload for one in taken} & set(store.blobs.digests()))
    incoming = list((store.blobs.path("00").parent.parent / "incoming").iterdir())
    fleet = (list_classes(store), list_class_history(store), describe_public_set(store))
    return repr((rounds, kept, work, fleet, uploads, incoming))


ACTIONS = {
    "close": lambda store: advance(store, 400.0),
    "retire": lambda store: remove_class(store, "c4", 400.0),
    "restore": lambda store: restore_round(store, 1, 400.0),
}


def finish(data, action):
    """What a server does that starts: tidy up, then move the open round forward."""
    store = open_store(data)
    remove_left_uploads(store)
    advance(store, 400.0)
    result = state_of(store)
    store.close()
    return result


def traced(data, action, last_line):
    """Do an action; kill this process at its ``last_line``-th line, or return how many lines there were."""
    lines = 0

    def count(frame, kind, _argument):
        nonlocal lines
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if kind == "line":
            lines += 1
            if lines == last_line:
                os.kill(os.getpid(), signal.SIGKILL)
        return count

    store = open_store(data)
    sys.settrace(count)
    ACTIONS[action](store)
    sys.settrace(None)
    store.close()
    return lines


def in_a_process(action):
    """Run an action in a forked process: (its result or None, the signal that ended it)."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        with os.fdopen(writing, "w") as pipe:
            json.dump(action(), pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    return (json.loads(text) if text else None), os.waitpid(child, 0)[1]


def main(data, kills, seed, action="close"):
    def copied(name):
        return Path(shutil.copytree(data, data.parent / name))

    before = copied("before")
    allowed = [] if action in ("close", "open") else [in_a_process(lambda: finish(before, action))[0]]
    lines, _ = in_a_process(lambda: traced(copied("undisturbed"), action, 0))
    undisturbed, _ = in_a_process(lambda: finish(data.parent / "undisturbed", action))
    allowed.append(undisturbed)
    others, killed = [], 0
    points = sorted(random.Random(seed).sample(range(1, lines + 1), min(kills, lines)))
    for point in points:
        copy = copied(f"killed-at-{point}")
        _, ended_by = in_a_process(lambda copy=copy, point=point: traced(copy, action, point))
        killed += ended_by == signal.SIGKILL
        result, _ = in_a_process(lambda copy=copy: finish(copy, action))
        if result not in allowed:
            others.append([point, result])
        shutil.rmtree(copy)
    print(json.dumps({"undisturbed": undisturbed, "lines": lines, "killed": killed, "others": others}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
