"""The exceptions of the device; each subclass is what somebody catches apart, or what a caller expects by its base."""

from __future__ import annotations

from fleet_protocol.errors import AuricleError


class EdgeError(AuricleError):
    """Root of what goes wrong on a device."""


class AudioError(EdgeError):
    """Sound cannot be used."""


class FeatureError(AudioError):
    """No features can be computed from these samples or settings."""


class RecordingError(AudioError):
    """An audio file or folder cannot be read."""


class TakeError(AudioError):
    """A take is no good to learn from."""


class BusyError(AudioError):
    """The microphone is in use by another process, which does not hand it over."""


class PausedError(EdgeError):
    """The device is paused, and nothing may record."""


class ClipError(EdgeError):
    """The clip store cannot take, find or change a clip or a label."""


class QuotaError(ClipError):
    """The clip store is full."""


class ModelError(EdgeError):
    """A model cannot be opened by this machine's runtime, or was given what it cannot take."""


class ConfigError(EdgeError):
    """The configuration cannot be used."""


class StateError(EdgeError):
    """What the device saved is damaged, in use by another process, or does not fit its bundle."""


class DamagedError(StateError):
    """A file of the state does not match its digest."""


class WorkError(EdgeError):
    """The child process that trains failed."""
