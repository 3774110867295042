"""Takes: what is good enough to learn from, and where in it the sound is."""

from __future__ import annotations

import numpy as np

from edge_client.audio.level import frame_levels_dbfs
from edge_client.audio.recordings import loudest_stretch
from edge_client.errors import TakeError
from fleet_protocol.arrays import Doubles, Floats
from fleet_protocol.feature_settings import FeatureSettings

FRAME_S = 0.01
# Resampling rounds off the flat tops of a clipped sound, so they no longer reach full scale.
_FULL_SCALE = 0.98
_MAX_CLIPPED = 0.002
# A sound must stand out from the room by so much, and reaches as far as it is that far below its loudest moment.
_ABOVE_ROOM_DB = 10.0
_BELOW_PEAK_DB = 30.0
_QUIETEST_DB = -55.0
_SHORTEST_S = 0.05
_MARGIN_S = 0.1


def levels_db(samples: Floats, rate_hz: int) -> Doubles:
    """Return the level of every 10 ms, in dB full scale, at least -120; a constant offset does not count."""
    return frame_levels_dbfs(samples, round(FRAME_S * rate_hz))


def room_level_db(samples: Floats, rate_hz: int) -> float:
    """Return the usual level of a room in which nothing happens, in dB full scale: the median of its 10 ms."""
    return float(np.median(levels_db(samples, rate_hz)))


def cut_take(samples: Floats, wanted: int, room_db: float, settings: FeatureSettings) -> Floats:
    """Cut a take to the sound in it.

    What surrounds the sound is cut off up to a clip's length, not beyond: filled up with digital silence, a clip would
    differ from all that the device will ever hear. Of a longer sound the loudest clip is kept.

    Args:
        samples: float32 [samples] as the microphone gave them, at the settings' rate.
        wanted: how many were asked for.
        room_db: level of the room, in dB full scale.
        settings: rate and length of a clip.

    Returns:
        float32 [clip_samples], or all of a take that is shorter.

    Raises:
        TakeError: the take is incomplete, clipped, silent or too short; says which, and what to do.
    """
    rate = settings.sample_rate_hz
    if len(samples) < 0.95 * wanted:
        raise TakeError(f"the microphone gave {len(samples) / rate:.1f} s instead of {wanted / rate:.1f} s")
    clipped = float((np.abs(samples) >= _FULL_SCALE).mean())
    if clipped > _MAX_CLIPPED:
        raise TakeError(f"too loud: {100 * clipped:.1f} % of it is clipped; move away, or lower the input's volume")
    levels = levels_db(samples, rate)
    peak = float(levels.max())
    if peak < max(_QUIETEST_DB, room_db + _ABOVE_ROOM_DB):
        raise TakeError(f"too quiet: {peak:.0f} dB at its loudest, and the room has {room_db:.0f} dB; come closer")
    active = np.flatnonzero(levels >= max(room_db + _ABOVE_ROOM_DB, peak - _BELOW_PEAK_DB))
    if len(active) * FRAME_S < _SHORTEST_S:
        raise TakeError(f"too short: only {1e3 * len(active) * FRAME_S:.0f} ms of it stand out from the room")
    frame, margin = round(FRAME_S * rate), round(_MARGIN_S * rate)
    begin, end = int(active[0]) * frame - margin, (int(active[-1]) + 1) * frame + margin
    missing = max(0, settings.clip_samples - (end - begin))
    begin = max(0, begin - missing // 2)
    end = min(len(samples), max(end, begin + settings.clip_samples))
    begin = max(0, min(begin, end - settings.clip_samples))
    return loudest_stretch(samples[begin:end], settings)
