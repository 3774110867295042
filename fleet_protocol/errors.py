"""The exceptions of the protocol.

AuricleError
├── ProtocolError            what came over the wire, or out of a file, is not what was agreed
│   ├── MessageError         a JSON message lacks a field, or holds a wrong type
│   ├── JsonError            a JSON text is no JSON, or larger or deeper than is read
│   ├── TensorError          an array file is damaged, or its arrays have wrong names, shapes or values
│   ├── PlanError            a round plan names an unknown method or setting, or a value out of range
│   ├── BundleError          a model bundle is damaged, foreign, or of another version
│   ├── BackupFormatError    a file is no backup, or a damaged one
│   ├── LinkFormatError      a text is no invitation
│   └── FeatureMismatchError two sides computed their features with different settings
├── LabelError               a label map cannot take or name a class
└── PluginError              a method of an installed package, or of a file, cannot be used
"""

from __future__ import annotations


class AuricleError(Exception):
    """Root of every error that Auricle raises on purpose; its text is meant for people."""


class ProtocolError(AuricleError):
    """What was received is not what was agreed."""


class MessageError(ProtocolError):
    """A JSON message lacks a field, or holds a wrong type."""


class JsonError(ProtocolError):
    """A JSON text is no JSON, or has more bytes, values or levels than are read."""


class TensorError(ProtocolError):
    """An array file is damaged, or its arrays have wrong names, shapes, dtypes or values."""


class PlanError(ProtocolError):
    """A round plan names an unknown method or setting, or a value of a wrong type or out of range."""


class BundleError(ProtocolError):
    """A model bundle is damaged, foreign, or of a version that this program does not know."""


class BackupFormatError(ProtocolError):
    """A file is no backup, is damaged, or holds what no program writes into one."""


class LinkFormatError(ProtocolError):
    """A text is no invitation."""


class FeatureMismatchError(ProtocolError):
    """Two sides computed their features with different settings."""


class LabelError(AuricleError):
    """A label map cannot take, rename or find a class."""


class PluginError(AuricleError):
    """A method of a package or a file cannot be loaded, is of another kind, or has a name that is taken."""
