"""A device whose owner teaches it, or that takes part in rounds: its folders, and the training process on them."""

import io
import logging
import os
import subprocess
import sys

import numpy as np

from edge_client.audio.recordings import Recordings
from edge_client.config import load_config
from edge_client.features.front_end import open_front_end
from edge_client.learning.teaching.job import to_teach
from edge_client.learning.training_job import to_line
from edge_client.learning.worker import run
from edge_client.model.runtime import ModelRuntime
from edge_client.storage.device_state import DeviceState
from fleet_protocol.ground.atomic_files import write_durably
from fleet_protocol.numbers.tensors import digest
from tests.support.checkout import ROOT
from tests.support.edge_process import BRISK, EdgeDaemon, give_identity
from tests.support.sound_server import no_sound_devices
from tests.support.sounds import melody, write_clips


def worker(config, job=None):
    """Start the training process of a device on a job, which is to learn what its owner taught unless one is given."""
    command, pipe = [sys.executable, "-m", "edge_client.learning.worker", str(config)], subprocess.PIPE
    child = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stderr=pipe)
    child.stdin.write(to_line(job).encode())
    child.stdin.flush()
    return child


def ended(child) -> str:
    """Wait for a training process, which must succeed; return its log."""
    log = child.stderr.read().decode()
    assert child.wait(180) == 0, log
    return log


class Device:
    """``sections`` of the configuration by name; a device without a microphone has None for that one."""

    def __init__(self, folder, bundle, **sections):
        self.folder, self.bundle = folder, bundle
        chosen = {"microphone": ""} | sections
        lines = [f"[{section}]\n{text}\n" for section, text in chosen.items() if text is not None]
        (folder / "edge.toml").write_text(
            f'[device]\nname = "x"\nstate = "state"\n[model]\nbundle = "{bundle}"\n' + "".join(lines)
        )
        self.config = load_config(folder / "edge.toml")
        give_identity(self.config.device.state, "x")
        self.state = DeviceState(self.config.device.state)
        self.clips = self.config.clips_folder

    def worker(self, job=None):
        return worker(self.folder / "edge.toml", job)

    def teach(self):
        return self.do(None)

    def do(self, job):
        """Do a job as the training process does it, in this one: a process of its own takes seconds to load."""
        log = io.StringIO()
        root, handler = logging.getLogger(), logging.StreamHandler(log)
        level = root.level
        root.setLevel(logging.INFO)
        root.addHandler(handler)
        try:
            run(self.config, job)
        finally:
            root.removeHandler(handler)
            root.setLevel(level)
        self.log = log.getvalue()
        return self.state.model.load(self.bundle)

    def keep(self, blob):
        """Have it hold what it would fetch from its aggregator; return the digest."""
        write_durably(self.state.blobs.path(digest(blob)), blob)
        return digest(blob)

    def to_teach(self):
        return to_teach(self.config, self.state)


class PlayingDaemon(EdgeDaemon):
    """A daemon that plays its folder ``recordings`` for want of a sound card; ``sections`` go on in ``[training]``."""

    def __init__(self, folder, sections):
        super().__init__(folder, "base", f'[microphone]\nfile = "recordings"\n{BRISK}{sections}')

    def teach(self, sounds, count):
        """Have it learn melodies, each by a name of its own and so many clips."""
        for seed, (name, sound) in enumerate(sounds.items(), 3):
            write_clips(self.state / "clips", sound, count, seed, name)
        run(load_config(self.config), None)

    def start(self):
        return super().start(os.environ | no_sound_devices(self.folder))


def scores_of(saved, sound):
    """A device's scores of unheard clips of a sound, float32 [clips, slots]."""
    clips = np.stack([melody(sound, np.random.default_rng([9, seed])) for seed in range(20)]).astype(np.float32)
    return scores(saved, clips)


def scores(saved, clips):
    model, settings = ModelRuntime(saved.listening_bundle), saved.bundle.manifest.feature_settings
    return model.predict(
        model.normalise(open_front_end(settings)(clips)), saved.progress.listening_labels.listening_mask
    )


def recall_as(saved, sound, label):
    """Share of unheard clips of a sound that the device takes for a label."""
    return (scores_of(saved, sound).argmax(axis=1) == saved.progress.listening_labels.slot_of(label)).mean()


def recall(tmp_path, saved, label):
    """Share of unheard clips of a label that a device recognises."""
    write_clips(tmp_path / "held out", label, 12, seed=1_000)
    recordings = Recordings(tmp_path / "held out", saved.bundle.manifest.feature_settings)
    found = scores(saved, recordings.load(recordings.clips(label))).argmax(axis=1)
    return float((found == saved.progress.label_map.slot_of(label)).mean())
