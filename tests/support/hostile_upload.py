"""Uploads that no device of this project would send: their documents are whatever JSON, or no JSON, a test wants."""

import json
from dataclasses import asdict

import numpy as np
from safetensors.numpy import save

from tests.support.aggregator_process import FakeDevice, sound_impressions


def packed(arrays: dict, document: dict) -> bytes:
    """Safetensors whose document may hold NaN and Infinity, which fleet_protocol.tensors.pack never writes."""
    return save(arrays, metadata={"auricle": json.dumps(document)})


def altered(device: FakeDevice, work: dict, samples: int, **changes) -> bytes:
    """A device's upload with some fields of its document replaced."""
    return packed(device.arrays(work, samples), asdict(device.update(work)) | changes)


def inventing(device: FakeDevice, work: dict, samples: int, reports: int, rows: int = 1) -> bytes:
    """An upload that reports so many sounds that nobody made, no two of them alike."""
    rng = np.random.default_rng(device.number)
    document = asdict(device.update(work, reports=(), known=()))
    document["reports"] = [{"slot": slot, "name": None, "clips": 5} for slot in range(reports)]
    first = 1_000 * device.number
    impressions = [sound_impressions(first + slot, rows, rng).astype(np.float32) for slot in range(reports)]
    arrays = device.arrays(work, samples) | {"impressions": np.stack(impressions)}
    return packed(arrays, document)
