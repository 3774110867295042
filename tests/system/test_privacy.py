"""docs/privacy.md against the wire: every byte that a device sends in a round of every kind, from enrolment on."""

import dataclasses
import json
import os
import re
import time
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
import soundfile

from aggregator_server.strategies.plans import strategies
from edge_client.audio.recordings import Recordings
from edge_client.clips.folders import rejected
from edge_client.clips.unknown_clips import UnknownClips
from edge_client.config.sections import ClipsConfig
from edge_client.events import Event
from edge_client.events.journal import Journal
from edge_client.features.front_end import open_front_end
from edge_client.learning.methods.local_method import LocalMethod, local_methods
from edge_client.model.runtime import ModelRuntime
from edge_client.storage.device_state import DeviceState
from fleet_protocol.bundle.bundle_file import read_bundle
from fleet_protocol.bundle.feature_settings import EmbeddingSettings, FeatureSettings
from fleet_protocol.bundle.ready_bundles import find_bundle
from fleet_protocol.numbers.tensors import unpack
from tests.support.aggregator_process import ENROL, Aggregator
from tests.support.checkout import ROOT
from tests.support.edge_process import BRISK, EdgeDaemon, give_identity, wait_for
from tests.support.phrases import joined, write_takes
from tests.support.recording_proxy import RecordingProxy, Request
from tests.support.sounds import melody, public_set_of, write_clips
from tests.support.taught_device import ended, worker

pytestmark = pytest.mark.slow

PAGE = ROOT / "docs" / "privacy.md"
# Of each method those settings that it has; where there are steps, they count and the epochs do not.
SHORT = {"epochs": 6, "steps": 20, "private_epochs": 2, "augmented_copies": 1, "impressions": 4, "impression_steps": 30}
SECRET_LABEL = "grandmother's kettle"
WINDOW = 32  # bytes: 16 samples, or 8 of them as float32


# The page's tables


def table(first: str) -> list[dict[str, str]]:
    """The rows of the page's table whose first column has a name, as {column: cell}."""
    lines = iter(PAGE.read_text().splitlines())
    columns = next(cells for line in lines if (cells := cells_of(line))[0] == first)
    next(lines)  # the rule below the columns' names
    rows = []
    while len(cells := cells_of(next(lines, ""))) == len(columns):
        rows.append(dict(zip(columns, cells, strict=True)))
    return rows


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def row_of(strategy: str) -> dict[str, str]:
    found = [row for row in table("strategy") if strategy in named(row["strategy"])]
    assert len(found) == 1, f"{PAGE.name} has {len(found)} rows for the strategy {strategy}, not one"
    return found[0]


def test_every_strategy_has_one_row_with_those_that_differ_in_their_training_alone():
    rows = [named(row["strategy"]) for row in table("strategy")]
    assert sorted(name for row in rows for name in row) == sorted(strategies())
    for row in rows:
        methods = [local_methods()[strategies()[name].local] for name in row]
        assert len(row) == 1 or {(one.any_architecture, one.keeps_own) for one in methods} == {(False, False)}


# What a device sent


@dataclasses.dataclass(frozen=True)
class Round:
    """One round of one strategy with one device, after its end."""

    strategy: str
    own: Path
    shared: Path
    folder: Path
    classes: list[dict]
    public_samples: int
    requests: list[Request]
    sent: bytes

    @property
    def settings(self) -> FeatureSettings:
        return read_bundle(self.own).manifest.feature_settings

    @property
    def state(self) -> DeviceState:
        return DeviceState(self.folder / "state")

    def bodies(self, method: str, path: str) -> list[bytes]:
        return [request.body for request in self.requests if (request.method, request.path) == (method, path)]

    @property
    def upload(self) -> tuple[dict[str, np.ndarray], dict]:
        (body,) = self.bodies("PUT", "/v1/rounds/1/update")
        return unpack(body)


def taught_device(folder: Path, bundle: Path, url: str) -> EdgeDaemon:
    """A device that was taught two words and a kettle, which lasts, heard something unknown, and has a journal.

    Its owner denied that some sounds were one of the words.
    """
    device = EdgeDaemon(
        folder,
        bundle,
        f'[recordings]\nevaluation = "evaluation"\n'
        f'[server]\nurl = "{url}"\nenrol_token = "{ENROL}"\nwait_s = 0.5\nlongest_pause_s = 1\n{BRISK}',
    )
    give_identity(device.state, folder.name)
    state, clips = device.device_state(), device.state / "clips"
    rng = np.random.default_rng(1)
    kettle = [joined(*(melody(sound, rng).astype(np.float32) for sound in ("stop", "up"))) for _ in range(6)]
    write_takes(clips, SECRET_LABEL, kettle)
    for label in ("yes", "no"):
        write_clips(clips, label, 6, seed=1)
        write_clips(clips, "down", 2, seed=6, name=rejected(label))
    write_clips(folder / "evaluation", "yes", 2, seed=3)
    settings = read_bundle(bundle).manifest.feature_settings
    noise = np.random.default_rng(2).uniform(-0.4, 0.4, settings.clip_samples).astype(np.float32)
    UnknownClips(state.unknown_folder, ClipsConfig(), settings.sample_rate_hz).add(time.time(), 0.2, noise)
    journal = Journal(state.database)
    journal.publish(Event(1_700_000_000.5, "detected", SECRET_LABEL, None, 0.9, -20.0))
    journal.close()
    if read_bundle(bundle).manifest.background:  # without, a device learns in rounds alone
        with worker(device.config) as teaching:
            ended(teaching)
    return device


def play(strategy: str, client, device: EdgeDaemon) -> list[dict]:
    """Run the device's daemon through a round; return the fleet's classes."""
    local = local_methods()[strategies()[strategy].local]
    settings = {name: value for name, value in SHORT.items() if name in local.settings}
    body = {"strategy": strategy, "settings": settings, "deadline_s": 600, "quorum": 1.0}
    with device.start(dict(os.environ)):
        wait_for(lambda: client.get("/v1/devices").json())
        client.post("/v1/rounds", json=body).raise_for_status()
        wait_for(lambda: all(d["learned"] for d in client.get("/v1/rounds/1").json()["participants"]))
        device.end()
        return client.get("/v1/classes").json()


# On cepstra one strategy of each row; on a pretrained front end, which describes new sounds otherwise, of either kind.
ROUNDS = [(named(row["strategy"])[0], "cnn1") for row in table("strategy")]
ROUNDS = [(name, "base" if strategies()[name].needs_embeddings else bundle) for name, bundle in ROUNDS]
ROUNDS += [("zero_shot", "base"), ("fedavg", "base_hidden")]


@pytest.fixture(scope="module", params=ROUNDS, ids="-".join)
def round_(request, tmp_path_factory):
    """A round between a real device and a real aggregator, with a proxy between them that sees what is sent."""
    strategy, bundle = request.param
    local = local_methods()[strategies()[strategy].local]
    own = shared = find_bundle(bundle)
    if isinstance(local, LocalMethod) and local.any_architecture:
        shared = find_bundle("ann3")
    folder = tmp_path_factory.mktemp(strategy)
    settings = read_bundle(own).manifest.feature_settings
    public = public_set_of(folder / "public", ("yes", "no", "up"), 8, settings)
    server = Aggregator(folder / "server").start()
    proxy = RecordingProxy(urlsplit(server.url).port)
    try:
        with server.client() as client:
            client.put("/v1/public-set", content=public.pack()).raise_for_status()
            if strategies()[strategy].shares_model:
                client.put("/v1/model", content=shared.read_bytes()).raise_for_status()
            classes = play(strategy, client, taught_device(folder / "shelf", own, proxy.url))
    finally:
        proxy.close()
        server.kill()
    samples = len(public.labels)
    return Round(strategy, own, shared, folder / "shelf", classes, samples, proxy.requests, proxy.sent)


# The page against what was sent


def fields_of(document: dict) -> set[str]:
    """The fields of an upload's document; of a list of objects and of the metrics, what is in them."""
    found = set()
    for name, value in document.items():
        inner = value if isinstance(value, list) else [value]
        keys = {key for item in inner if isinstance(item, dict) for key in item}
        found |= {f"{name}.{key}" for key in keys} or {name}
    return found


def test_an_upload_has_the_fields_and_the_arrays_of_the_strategy_s_row(round_):
    arrays, document = round_.upload
    row = named(row_of(round_.strategy)["fields of the document"])
    assert len(set(row)) == len(row)
    assert fields_of(document) == set(row)
    described = len(document["known"]) + len(document["reports"])
    assert described > len(document["reports"]) == 1
    frames, coefficients = round_.settings.shape
    sizes = {
        "samples": round_.public_samples,
        "classes": len(document["classes"]),
        "sounds": described,
        "negatives": len(document["negatives"]),
        "windows": int(arrays["before_states"].sum()) if "before_states" in arrays else 0,
        "impressions": SHORT["impressions"],
        "frames": frames,
        "coefficients": coefficients,
    }
    wanted = {}
    cell = row_of(round_.strategy)["arrays of the upload, float32"]
    for name, shape in re.findall(r"`([^`]+)` \[([^\]]+)\]", cell):
        if name == "weights/<name>":
            shapes = read_bundle(round_.shared).manifest.weight_shapes
            wanted |= {f"weights/{key}": tuple(value) for key, value in shapes.items()}
        else:
            wanted[name] = tuple(sizes[size] for size in shape.split(", "))
    others = ("impressions", "profiles") if isinstance(round_.settings, EmbeddingSettings) else ("prototypes",)
    wanted = {name: shape for name, shape in wanted.items() if name not in others}
    assert {name: array.shape for name, array in arrays.items()} == wanted
    assert {array.dtype for array in arrays.values()} == {np.dtype(np.float32)}


def test_what_an_owner_denied_leaves_with_the_row_that_says_so(round_):
    arrays, document = round_.upload
    names = {info["class_id"]: info["name"] for info in round_.classes}
    denied = [names[class_id] for class_id in document["negatives"]]
    assert sorted(denied) == (["no", "yes"] if round_.strategy == "prototypes" else [])
    assert arrays.get("negative_counts", np.zeros(0)).tolist() == [2.0] * len(denied)


def test_beside_a_new_sound_the_classes_of_own_clips_are_described_as_the_row_says(round_):
    _, document = round_.upload
    cell = row_of(round_.strategy)["arrays of the upload, float32"]
    assert ("with a new sound, for it and for each class of `known`" in cell) == (round_.strategy != "prototypes")
    taught = round_.state.model.load(round_.own).progress.label_map
    own = {str(taught.class_ids[taught.slot_of(label)]) for label in ("yes", "no")}
    assert own <= set(document["known"])
    assert [report["clips"] > 0 for report in document["reports"]] == [True]


def test_nothing_is_asked_or_told_but_what_the_page_lists(round_):
    rows = {}
    for row in table("request"):
        method, path = named(row["request"])[0].split()
        rows[method, path.replace("{round_id}", "1")] = set(named(row["fields"]))
    found = {}
    for request in round_.requests:
        path = "/v1/blobs/{sha256}" if request.path.startswith("/v1/blobs/") else request.path
        fields = set() if request.method == "PUT" else set(json.loads(request.body or b"{}"))
        fields |= {pair.partition("=")[0] for pair in request.query.split("&") if pair}
        assert found.setdefault((request.method, path), fields) == fields
    assert found == rows
    (enrolment,) = map(json.loads, round_.bodies("POST", "/v1/devices"))
    assert enrolment["labels"] == []
    assert enrolment["name"] == "shelf"
    assert [report["name"] for report in round_.upload[1]["reports"]] == [None]


# The clips against what was sent


def windows_of(data: bytes, step: int) -> list[bytes]:
    """Every window of some bytes that begins at a whole number of steps, without those that hold hardly anything."""
    found = (data[at : at + WINDOW] for at in range(0, len(data) - WINDOW + 1, step))
    return [window for window in found if len(set(window)) > 4]


def occurring(windows: list[bytes], sent: bytes) -> int:
    present = {sent[at : at + WINDOW] for at in range(len(sent) - WINDOW + 1)}
    return sum(window in present for window in windows)


def secrets_of(folder: Path, bundle: Path) -> dict[str, list[bytes]]:
    """What must not leave the device, in the forms in which it could: samples and features of each clip."""
    model = ModelRuntime(read_bundle(bundle))
    front_end = open_front_end(model.manifest.feature_settings)
    recordings = Recordings(folder, front_end.settings)
    found: dict[str, list[bytes]] = {name: [] for name in ("int16", "float32", "features", "normalised")}
    for path in sorted(folder.rglob("*.wav")):
        found["int16"] += windows_of(soundfile.read(path, dtype="int16")[0].astype("<i2").tobytes(), 2)
        clip = recordings.load([path])
        found["float32"] += windows_of(clip.astype("<f4").tobytes(), 4)
        features = front_end(clip)
        found["features"] += windows_of(features.tobytes(), 4)
        found["normalised"] += windows_of(model.normalise(features).tobytes(), 4)
    assert all(len(windows) > 1_000 for windows in found.values())
    return found


def test_of_all_bytes_that_a_device_sends_none_are_what_it_heard(round_):
    sent = round_.sent
    assert len(sent) > 4_000  # the whole round went through the proxy; embeddings are small
    assert round_.state.identity.load().device_id.encode() in sent
    assert b"/v1/rounds/1/update" in sent
    assert b"/v1/rounds/1/learned" in sent
    for name, windows in secrets_of(round_.folder, round_.own).items():
        assert occurring(windows, sent) == 0, name
        assert occurring(windows, sent + b"x" + windows[len(windows) // 2]) >= 1  # it would have been noticed
    for word in (SECRET_LABEL, "grandmother", "kettle", "SQLite format"):
        assert word.encode() not in sent


def test_the_device_s_own_model_leaves_only_where_the_row_says_so(round_):
    """Weights that the training did not change are those of the bundle, which the fleet has anyway."""
    bundle = b"".join(array.tobytes() for array in read_bundle(round_.own).weights.values())
    public = set(windows_of(bundle, 4))
    trained = round_.state.model.load(round_.own).bundle.weights
    windows = [window for array in trained.values() for window in windows_of(array.tobytes(), 4)]
    windows = [window for window in windows if window not in public]
    assert len(windows) > 300
    share = occurring(windows, round_.sent) / len(windows)
    assert named(row_of(round_.strategy)["own model"]) == ["leaves" if share else "stays"]


def test_what_was_taught_before_the_round_is_a_class_of_the_fleet_under_a_name_that_the_owner_did_not_choose(round_):
    discovered = [info for info in round_.classes if info["discovered_in"] is not None]
    assert [info["discovered_in"] for info in discovered] == [1]
    progress = round_.state.model.load(round_.own).progress
    slot = progress.label_map.slot_of(SECRET_LABEL)
    assert progress.label_map.class_ids[slot] == discovered[0]["class_id"]
