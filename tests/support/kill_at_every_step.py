"""Close a round, or undo one, while being killed by SIGKILL at chosen lines; tests/system/test_restart.py runs it.

usage: python -m tests.support.kill_at_every_step DATA KILLS SEED [ACTION]

DATA holds a round whose last upload has arrived. It is copied; in each copy a forked process closes the round and is
killed when it has executed so many lines of aggregator_server; a second process then finishes. Prints one JSON object:
the undisturbed result, the number of lines, and every other result that was seen.

With the ACTION ``open`` DATA holds a schedule that is due. The second process finds its one round open.
With another (``retire`` a class, ``restore`` a round, or do so ``without`` a device) DATA holds a round that is done.
The second process finds the state before the action, or the one after it, and nothing else.
"""

import json
import os
import random
import shutil
import signal
import sys
from pathlib import Path

import kmedoids  # noqa: F401  (imported once here, not in every forked process)

from aggregator_server.fleet.classes import list_classes
from aggregator_server.rounds.devices.work import next_work
from aggregator_server.rounds.lifecycle import advance
from aggregator_server.rounds.publishing import describe_public_set
from aggregator_server.rounds.retention import remove_left_uploads
from aggregator_server.rounds.schedules import list_schedules, open_scheduled
from aggregator_server.rounds.views.replies import describe_round, list_rounds
from aggregator_server.store import Store
from aggregator_server.store.tables import RoundRow
from aggregator_server.undo.class_changes import remove_class
from aggregator_server.undo.reports import list_class_history
from aggregator_server.undo.restoring import restore_round

PACKAGE = str(Path(sys.modules["aggregator_server"].__file__).parent)


def result_of(store):
    detail = describe_round(store, 1)
    work = [next_work(store, p.device_id, 500.0) for p in detail.participants]
    following = [(found.round_id, found.state, found.series, found.schedule) for found in list_rounds(store, None, 10)]
    leftovers = list((store.blobs.path("00").parent.parent / "incoming").iterdir())
    leftovers += sorted({p.upload for p in detail.participants} & set(store.blobs.digests()))
    parts = (
        detail.summary.state,
        detail.result_public_set,
        detail.result_consensus,
        detail.betas,
        detail.discovery,
        detail.result_weights,
        detail.result_prototypes,
        detail.aggregation,
        state_after(store),
        list_classes(store),
        describe_public_set(store),
        [item.assignments for item in work],
        following,
        leftovers,
    )
    results = (detail.result_public_set, detail.result_consensus, detail.result_weights, detail.result_prototypes)
    for digest in (*results, state_after(store)):
        if digest is not None:
            store.blobs.read(digest)
    return repr(parts)


def state_after(store):
    """The blob with what the aggregation keeps for the next round."""
    with store.reading() as session:
        return session.get_one(RoundRow, 1).result_server_state


def fleet_state(store):
    """Everything that an operation changes."""
    rounds = list_rounds(store, None, 10)
    newest = describe_round(store, rounds[0].round_id)
    results = (newest.result_public_set, newest.result_consensus, newest.result_weights, newest.result_prototypes)
    for digest in results:
        if digest is not None:
            store.blobs.read(digest)
    work = [next_work(store, p.device_id, 500.0) for p in describe_round(store, 1).participants]
    uploads = sorted({p.upload for p in describe_round(store, 1).participants} & set(store.blobs.digests()))
    return repr((rounds, results, list_class_history(store), describe_public_set(store), work, uploads))


def schedule_state(store):
    """Everything that a schedule's step changes."""
    work = next_work(store, f"{1:032x}", 500.0)
    return repr((list_rounds(store, None, 10), list_schedules(store), work))


ACTIONS = {
    "open": lambda store: open_scheduled(store, 400.0),
    "close": lambda store: advance(store, 400.0),
    "retire": lambda store: remove_class(store, "c4", 400.0),
    "restore": lambda store: restore_round(store, 1, (), 400.0),
    "without": lambda store: restore_round(store, 1, (f"{1:032x}",), 400.0),
}


STATES = {"close": result_of, "open": schedule_state}


def finish(data, action):
    """What a server does that starts: tidy up, then move the open round forward."""
    store = Store(data)
    remove_left_uploads(store)
    advance(store, 400.0)
    if action == "open":
        open_scheduled(store, 400.0)
    result = STATES.get(action, fleet_state)(store)
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

    store = Store(data)
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
    allowed = [] if action in STATES else [in_a_process(lambda: finish(before, action))[0]]
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
