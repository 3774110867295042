"""Sounds of a household and a street, synthesised: each draw is another source, with a pitch, pace and room of its own.

`auricle-edge try` and `auricle-aggregator try` play with them, and the demonstration learns them. Nobody's recording is
in them.
"""

import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fleet_protocol.numbers.arrays import Doubles, Floats

RATE_HZ = 16_000
_REVERBERATION_S = (0.05, 0.5)
_SOURCE_DB, _NOISE_DB = (-40.0, -12.0), (-40.0, -8.0)  # level; noise below it

Draw = Callable[[np.random.Generator, int], Doubles]
"""Makes so many samples of a source at 16 kHz."""


def takes(kind: str, count: int, length: int, rng: np.random.Generator) -> Floats:
    """Return takes of one new source, a key of :data:`SOUNDS`, in one new room: float32 [count, length] in -1..1.

    They begin at other times, at levels up to 6 dB apart, in other noise.
    """
    source, room, level = SOUNDS[kind], _room(rng), rng.uniform(*_SOURCE_DB)
    state = rng.integers(1 << 62)
    found = np.empty((count, length), np.float32)
    for take in found:
        # The same source: the same draws, but for the time at which the take begins.
        late = int(rng.integers(1, RATE_HZ // 2))
        dry = source(np.random.default_rng(state), length + late)[late:]
        wet = np.fft.irfft(np.fft.rfft(dry, 2 * length) * np.fft.rfft(room, 2 * length))[:length]
        noise = coloured(rng, length, rng.uniform(0.0, 1.0))
        wet = wet / _rms(wet) + noise / _rms(noise) * 10 ** (rng.uniform(*_NOISE_DB) / 20)
        take[:] = wet / _rms(wet) * 10 ** ((level + rng.uniform(-3, 3)) / 20)
    return np.clip(found, -1.0, 1.0, out=found)


def save(path: Path, samples: Floats) -> None:
    """Write a take as a WAV file, 16 kHz, 16 bit; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE_HZ)
        file.writeframes((samples * 32_767).astype("<i2").tobytes())


def coloured(rng: np.random.Generator, length: int, slope: float, low_hz: float = 0.0, high_hz: float = 8e3) -> Doubles:
    """Return noise whose amplitude falls with frequency to the power of a slope, between two frequencies."""
    hz = np.fft.rfftfreq(length, 1 / RATE_HZ)
    spectrum = rng.standard_normal(len(hz)) + 1j * rng.standard_normal(len(hz))
    inside = (hz >= low_hz) & (hz <= high_hz)
    return np.asarray(np.fft.irfft(spectrum * inside * np.maximum(hz, 20.0) ** -slope, length))


def _rms(samples: Doubles) -> float:
    return float(np.sqrt(np.mean(np.square(samples)))) + 1e-9


def _room(rng: np.random.Generator) -> Doubles:
    """Return an impulse response: the direct sound, and noise that falls by 60 dB in the reverberation time."""
    time_s = np.arange(RATE_HZ // 2) / RATE_HZ
    tail = rng.standard_normal(len(time_s)) * 10 ** (-3 * time_s / rng.uniform(*_REVERBERATION_S))
    tail *= rng.uniform(0.0, 0.15) / _rms(tail) / np.sqrt(len(tail))
    tail[0] += 1.0
    return np.asarray(tail)


def _seconds(length: int) -> Doubles:
    return np.arange(length) / RATE_HZ


def _tones(hz: Doubles, phases: Doubles, amplitudes: Doubles) -> Doubles:
    """Return the sum of tones whose frequencies are [tones, samples] or [tones, 1]."""
    steps = np.broadcast_to(hz, (len(hz), phases.shape[1]))
    turns = np.cumsum(steps, axis=1) / RATE_HZ + phases[:, :1]
    audible = steps < 7_500
    return np.asarray((amplitudes[:, None] * audible * np.sin(2 * np.pi * turns)).sum(axis=0))


def _harmonics(rng: np.random.Generator, hz: Doubles, count: int, fall: float) -> Doubles:
    """Return a harmonic sound with a frequency at each sample; overtones fall as a power of their number."""
    numbers = np.arange(1, count + 1)[:, None]
    phases = np.broadcast_to(rng.uniform(size=(count, 1)), (count, len(hz)))
    return _tones(numbers * hz[None], phases, numbers[:, 0] ** -fall * rng.uniform(0.5, 1.0, count))


def _struck(rng: np.random.Generator, length: int, hz: Doubles, decay_s: float) -> Doubles:
    """Return partials that are struck once and die away, high ones sooner."""
    time_s = _seconds(length)
    decays = decay_s * (hz.min() / hz) ** rng.uniform(0.2, 0.8)
    parts = np.sin(2 * np.pi * (hz[:, None] * time_s + rng.uniform(size=(len(hz), 1)))) * (hz < 7_500)[:, None]
    return np.asarray((rng.uniform(0.3, 1.0, len(hz))[:, None] * parts * np.exp(-time_s / decays[:, None])).sum(axis=0))


def _repeated(length: int, starts_s: Doubles, one: Doubles) -> Doubles:
    found = np.zeros(length)
    for start in (starts_s * RATE_HZ).astype(int):
        part = one[: max(0, length - start)]
        found[start : start + len(part)] += part
    return found


def _paced(rng: np.random.Generator, length: int, every_s: float, jitter: float = 0.0) -> Doubles:
    starts = np.arange(0, length / RATE_HZ, every_s)
    return np.asarray(np.abs(starts + jitter * every_s * rng.uniform(-1, 1, len(starts))))


def _gated(length: int, on_s: float, off_s: float) -> Doubles:
    return np.asarray((_seconds(length) % (on_s + off_s) < on_s).astype(float))


def _beeps(rng: np.random.Generator, length: int, low_hz: float, high_hz: float, on_s: float, off_s: float) -> Doubles:
    hz = np.full(length, rng.uniform(low_hz, high_hz))
    gate = _gated(length, on_s * rng.uniform(0.7, 1.4), off_s * rng.uniform(0.7, 1.4))
    return gate * _harmonics(rng, hz, int(rng.integers(1, 5)), rng.uniform(1, 3))


def _alarm(rng: np.random.Generator, length: int) -> Doubles:
    return _beeps(rng, length, 2_400, 3_600, 0.4, 0.3)


def _beep(rng: np.random.Generator, length: int) -> Doubles:
    return _beeps(rng, length, 700, 2_200, 0.15, 0.5)


def _doorbell(rng: np.random.Generator, length: int) -> Doubles:
    first, ratio = rng.uniform(500, 1200), rng.uniform(0.7, 0.85)
    partials = np.array([1.0, 2.0, 2.76, 4.1, 5.4])
    notes = [_struck(rng, RATE_HZ, first * pitch * partials, rng.uniform(0.3, 0.8)) for pitch in (1.0, ratio)]
    pause, again = rng.uniform(0.3, 0.6), rng.uniform(1.2, 2.0)
    return _repeated(length, _paced(rng, length, again), notes[0]) + _repeated(
        length, _paced(rng, length, again) + pause, notes[1]
    )


def _telephone(rng: np.random.Generator, length: int) -> Doubles:
    hz = rng.uniform(700, 1600) * (1 + 0.25 * (np.sin(2 * np.pi * rng.uniform(12, 25) * _seconds(length)) > 0))
    return _harmonics(rng, hz, 4, 1.5) * _gated(length, rng.uniform(0.5, 1.2), rng.uniform(0.3, 0.8))


def _siren(rng: np.random.Generator, length: int) -> Doubles:
    low, swing, every_s = rng.uniform(450, 800), rng.uniform(1.4, 2.2), rng.uniform(0.3, 3.0)
    return _harmonics(rng, low * swing ** (0.5 - 0.5 * np.cos(2 * np.pi * _seconds(length) / every_s)), 6, 1.2)


def _kettle(rng: np.random.Generator, length: int) -> Doubles:
    wobble = 1 + 0.01 * np.sin(2 * np.pi * rng.uniform(3, 8) * _seconds(length))
    tone = _harmonics(rng, rng.uniform(1800, 3500) * wobble, 3, 2.0)
    return tone + 0.3 * coloured(rng, length, 0.0, 1_000) / _rms(coloured(rng, length, 0.0, 1_000))


def _knock(rng: np.random.Generator, length: int) -> Doubles:
    partials = rng.uniform(80, 300) * np.array([1.0, 1.6, 2.3, 3.4, 5.1])
    return _repeated(length, _paced(rng, length, rng.uniform(0.15, 0.4), 0.1), _struck(rng, 4_000, partials, 0.03))


def _clapping(rng: np.random.Generator, length: int) -> Doubles:
    one = coloured(rng, 2_400, 0.2, rng.uniform(400, 900), rng.uniform(3_000, 7_000))
    one *= np.exp(-_seconds(2_400) / rng.uniform(0.008, 0.02))
    return _repeated(length, _paced(rng, length, rng.uniform(0.2, 0.5), 0.1), one)


def _applause(rng: np.random.Generator, length: int) -> Doubles:
    return sum((_clapping(rng, length) for _ in range(12)), np.zeros(length))


def _glass(rng: np.random.Generator, length: int) -> Doubles:
    found = np.zeros(length)
    for start in rng.exponential(0.25, 14) + 0.1:
        partials = rng.uniform(1_500, 5_000) * np.array([1.0, 1.3, 1.7, 2.2])
        found += rng.uniform(0.2, 1.0) * _repeated(length, np.array([start]), _struck(rng, 8_000, partials, 0.08))
    return found + _repeated(length, np.array([0.05]), 2 * coloured(rng, 3_000, 0.0) * 30)


def _bark(rng: np.random.Generator, length: int) -> Doubles:
    time_s, duration = _seconds(4_800), rng.uniform(0.12, 0.25)
    hz = rng.uniform(250, 700) * (1 + 0.5 * np.sin(np.pi * np.minimum(time_s / duration, 1)))
    one = (_harmonics(rng, hz, 12, 0.6) + coloured(rng, 4_800, 0.5) * 40) * np.exp(-((time_s / duration) ** 4))
    return _repeated(length, _paced(rng, length, rng.uniform(0.35, 0.9), 0.15), one)


def _meow(rng: np.random.Generator, length: int) -> Doubles:
    time_s, duration = _seconds(16_000), rng.uniform(0.5, 0.9)
    hz = rng.uniform(400, 800) * (1 + 0.4 * np.sin(np.pi * np.minimum(time_s / duration, 1)))
    one = _harmonics(rng, hz, 9, 0.9) * np.sin(np.pi * np.minimum(time_s / duration, 1))
    return _repeated(length, _paced(rng, length, rng.uniform(1.0, 1.6)), one)


def _cry(rng: np.random.Generator, length: int) -> Doubles:
    time_s, breath = _seconds(length), rng.uniform(0.8, 1.4)
    turn = time_s % breath / breath
    hz = rng.uniform(350, 550) * (1 + 0.2 * np.sin(np.pi * turn) + 0.02 * np.sin(2 * np.pi * 6 * time_s))
    return np.asarray(_harmonics(rng, hz, 14, 0.5) * np.clip(np.sin(np.pi * turn / 0.8), 0, None) * (turn < 0.8))


def _birds(rng: np.random.Generator, length: int) -> Doubles:
    time_s = _seconds(3_200)
    hz = rng.uniform(2_500, 5_000) * (1 + rng.uniform(-2, 2) * time_s + 0.1 * np.sin(2 * np.pi * 30 * time_s))
    one = _harmonics(rng, hz, 2, 2.0) * np.sin(np.pi * np.arange(3_200) / 3_200)
    return _repeated(length, _paced(rng, length, rng.uniform(0.22, 0.6), 0.2), one)


def _crickets(rng: np.random.Generator, length: int) -> Doubles:
    pulses = np.clip(np.sin(2 * np.pi * rng.uniform(25, 60) * _seconds(length)), 0, None) ** 2
    return np.asarray(
        _harmonics(rng, np.full(length, rng.uniform(3_500, 5_500)), 1, 1.0) * pulses * _gated(length, 0.3, 0.2)
    )


def _engine(rng: np.random.Generator, length: int) -> Doubles:
    hz = rng.uniform(20, 70) * (1 + 0.03 * np.sin(2 * np.pi * rng.uniform(0.3, 2) * _seconds(length)))
    return _harmonics(rng, hz, 60, 0.8) + coloured(rng, length, 0.8) * 400


def _vacuum_cleaner(rng: np.random.Generator, length: int) -> Doubles:
    """A vacuum cleaner, a hair dryer, a blender."""
    whine = _harmonics(rng, np.full(length, rng.uniform(200, 900)), 12, 0.8)
    noise = coloured(rng, length, rng.uniform(0.1, 0.5), 100, rng.uniform(4_000, 8_000))
    return whine * rng.uniform(0.1, 0.6) / _rms(whine) + noise / _rms(noise)


def _fan(rng: np.random.Generator, length: int) -> Doubles:
    noise = coloured(rng, length, rng.uniform(0.7, 1.2))
    return np.asarray(noise * (1 + 0.3 * np.sin(2 * np.pi * rng.uniform(5, 25) * _seconds(length))))


def _drill(rng: np.random.Generator, length: int) -> Doubles:
    strokes = _repeated(length, _paced(rng, length, 1 / rng.uniform(12, 40), 0.05), coloured(rng, 500, 0.2) * 50)
    return strokes + 0.2 * _harmonics(rng, np.full(length, rng.uniform(150, 500)), 15, 0.5)


def _saw(rng: np.random.Generator, length: int) -> Doubles:
    stroke = np.abs(np.sin(np.pi * rng.uniform(1.5, 3.5) * _seconds(length)))
    return np.asarray(stroke * coloured(rng, length, 0.1, rng.uniform(800, 2_000)))


def _rain(rng: np.random.Generator, length: int) -> Doubles:
    drops = np.zeros(length)
    drops[rng.integers(length, size=length // 60)] = rng.exponential(1.0, length // 60)
    return drops + 30 * coloured(rng, length, 0.1) * rng.uniform(0.1, 1.0)


def _water(rng: np.random.Generator, length: int) -> Doubles:
    found = 60 * coloured(rng, length, 0.3, 300) * rng.uniform(0.2, 1.0)
    for start in np.sort(rng.uniform(0, length / RATE_HZ, 60)):
        time_s = _seconds(800)
        drop = np.sin(2 * np.pi * rng.uniform(400, 1_800) * time_s * (1 + 3 * time_s)) * np.exp(-time_s / 0.012)
        found += _repeated(length, np.array([start]), drop)
    return found


def _wind(rng: np.random.Generator, length: int) -> Doubles:
    gusts = 1 + 0.7 * np.sin(2 * np.pi * rng.uniform(0.2, 1.0) * _seconds(length) + rng.uniform(0, 6))
    return np.asarray(gusts * coloured(rng, length, rng.uniform(1.0, 1.6)))


def _fire(rng: np.random.Generator, length: int) -> Doubles:
    found = 20 * coloured(rng, length, 0.9)
    for start in rng.uniform(0, length / RATE_HZ, 40):
        click = coloured(rng, 400, 0.1, 1_000) * np.exp(-_seconds(400) / 0.003) * rng.exponential(60)
        found += _repeated(length, np.array([start]), click)
    return found


def _clock(rng: np.random.Generator, length: int) -> Doubles:
    partials = rng.uniform(1_200, 3_000) * np.array([1.0, 1.5, 2.1])
    return _repeated(length, _paced(rng, length, rng.uniform(0.25, 1.0)), _struck(rng, 1_600, partials, 0.006))


def _keyboard(rng: np.random.Generator, length: int) -> Doubles:
    one = coloured(rng, 1_200, 0.1, 800) * np.exp(-_seconds(1_200) / rng.uniform(0.004, 0.012))
    return _repeated(length, _paced(rng, length, rng.uniform(0.1, 0.25), 0.45), one)


def _footsteps(rng: np.random.Generator, length: int) -> Doubles:
    one = coloured(rng, 3_200, 0.7, 60, rng.uniform(800, 3_000)) * np.exp(-_seconds(3_200) / rng.uniform(0.02, 0.06))
    return _repeated(length, _paced(rng, length, rng.uniform(0.35, 0.7), 0.05), one)


def _car_horn(rng: np.random.Generator, length: int) -> Doubles:
    low = rng.uniform(300, 500)
    both = [_harmonics(rng, np.full(length, hz), 14, 0.7) for hz in (low, low * rng.uniform(1.15, 1.3))]
    return (both[0] + both[1]) * _gated(length, rng.uniform(0.4, 2.5), rng.uniform(0.2, 0.8))


def _bang(rng: np.random.Generator, length: int) -> Doubles:
    one = coloured(rng, 8_000, rng.uniform(0.2, 0.7)) * np.exp(-_seconds(8_000) / rng.uniform(0.03, 0.12))
    return _repeated(length, _paced(rng, length, rng.uniform(0.8, 1.8)), one)


def _music(rng: np.random.Generator, length: int) -> Doubles:
    found, every_s, root = np.zeros(length), rng.uniform(0.15, 0.45), rng.uniform(110, 330)
    scale = root * 2 ** (np.array([0, 2, 4, 5, 7, 9, 11, 12]) / 12)
    for start in _paced(rng, length, every_s):
        for hz in rng.choice(scale, int(rng.integers(1, 4)), replace=False):
            note = _struck(rng, int(0.6 * RATE_HZ), hz * np.arange(1, 7), 0.3)
            found += _repeated(length, np.array([start]), note)
    return found


SOUNDS: dict[str, Draw] = {
    draw.__name__.removeprefix("_"): draw
    for draw in (
        *(_alarm, _applause, _bang, _bark, _beep, _birds, _car_horn, _clapping, _clock, _crickets, _cry, _doorbell),
        *(_drill, _engine, _fan, _fire, _footsteps, _glass, _kettle, _keyboard, _knock, _meow, _music, _rain, _saw),
        *(_siren, _telephone, _vacuum_cleaner, _water, _wind),
    )
}
"""Sounds by name."""
