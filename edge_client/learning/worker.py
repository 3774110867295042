"""The child process that trains: its memory returns when it ends, and listening goes on meanwhile.

`python -m edge_client.learning.worker CONFIG` reads its job as one line of JSON from its standard input
(edge_client/learning/training_job.py). Its result is in the state folder when it exits with 0: an upload or a report in
the outbox, then the model, each written whole. Its parent keeps the pipe open for as long as the job is wanted.
"""

import dataclasses
import os
import sys
import threading
from pathlib import Path

from edge_client.audio.recordings import Recordings
from edge_client.clips.folders import known_labels
from edge_client.config import Config, load_config
from edge_client.errors import WorkError
from edge_client.learning.class_links import follow_fleet, follow_names, without_silent
from edge_client.learning.methods.local_method import local_methods
from edge_client.learning.personalisation import personalisations
from edge_client.learning.teaching.job import teach
from edge_client.learning.training_job import TrainingJob, from_line
from edge_client.logs import set_up_log
from edge_client.storage.device_state import DeviceState
from edge_client.storage.saved_model import SavedModel
from fleet_protocol.bundle.labels import LabelMap
from fleet_protocol.errors import AuricleError, PlanError
from fleet_protocol.messages.rest import Choice, RoundPlan, Work
from fleet_protocol.methods.setting import Settings, complete


def main() -> int:
    """Do the job on standard input; return the exit status."""
    set_up_log()
    try:
        job = from_line(sys.stdin.readline())
        threading.Thread(target=_end_with_parent, daemon=True).start()
        config = load_config(Path(sys.argv[1]))
        os.nice(config.training.nice)
        run(config, job)
    except (AuricleError, OSError) as error:
        print(f"auricle-edge: {error}", file=sys.stderr)
        return 1
    return 0


def _end_with_parent() -> None:
    """Stop at once when the daemon is gone: its successor will ask for the same work again."""
    sys.stdin.read()
    os._exit(1)


def run(config: Config, job: TrainingJob) -> None:
    """Do one job and save its result: first what is to be sent, then the model.

    After a power cut in between, the model is as it was, and the same job is done again. A command that has the model
    to itself is waited for.
    """
    state = DeviceState(config.device.state)
    lock = state.lock("training", config.training.deadline_s)
    try:
        if job is None:
            teach(config, state)
        else:
            _take_part(config, state, job)
    finally:
        os.close(lock)


def _take_part(config: Config, state: DeviceState, job: Work) -> None:
    work = dataclasses.replace(job, plan=checked_plan(job.plan))
    saved = state.model.load(config.bundle)
    said, followed = state.offers.said(), _followed(config, state, saved, work)
    renamed = _renamed(saved.progress.label_map, followed)
    saved = dataclasses.replace(saved, progress=saved.progress.renamed(followed))
    method, known = work.plan.local.name, local_methods()
    if method not in known:
        raise WorkError(
            f"this device knows no local method {method!r} (known: {', '.join(known)}); update its software"
        )
    part = known[method].open_round(config, state, saved, work)
    if work.kind == "contribute":
        part.contribute()
    else:
        part.learn()
        state.offers.note_learned(said)
    for former, name in renamed.items():
        state.choices.rename_label(former, name)


def checked_plan(plan: RoundPlan) -> RoundPlan:
    """Return a plan without settings that this version does not know; raise a PlanError for one out of its range.

    The local method may be one that this version does not know, the personalisation may not.
    """
    method, personalisation = local_methods().get(plan.local.name), personalisations().get(plan.personalisation.name)
    if personalisation is None:
        raise PlanError(f"this device knows no personalisation {plan.personalisation.name!r}; update its software")
    local = plan.local if method is None else _checked(plan.local, method.settings)
    personal = _checked(plan.personalisation, personalisation.settings)
    return dataclasses.replace(plan, local=local, personalisation=personal)


def _checked(choice: Choice, known: Settings) -> Choice:
    given = {name: value for name, value in choice.settings.items() if name in known}
    return Choice(choice.name, complete(f"the plan's {choice.name!r}", known, given))


def _followed(config: Config, state: DeviceState, saved: SavedModel, work: Work) -> LabelMap:
    """Return the device's labels as the fleet's classes are now; those that the owner taught or chose stay its own.

    Where it learns, without classes of others that it is not to listen for.
    """
    taught = Recordings(config.clips_folder, saved.bundle.manifest.feature_settings).labels()
    labels = {*taught, *known_labels(config.clips_folder)}
    names = {info.class_id: info.name for info in work.classes}
    state.class_names.follow(names, {item.class_id: item.into for item in work.merged})
    state.offers.follow(work)
    label_map = follow_fleet(saved.progress.label_map, work, labels)
    if work.kind == "learn":
        label_map = without_silent(label_map, state.offers.silent(), labels)
    return follow_names(label_map, state.class_names.present(), labels)


def _renamed(before: LabelMap, after: LabelMap) -> dict[str, str]:
    names = zip(before.names, after.names, strict=True)
    return {former: name for former, name in names if former != name and name in after.labels}


if __name__ == "__main__":
    sys.exit(main())
