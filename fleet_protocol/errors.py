"""The exceptions of the protocol, all of them an :class:`AuricleError`."""

import re


def printable(text: str) -> str:
    """Return words fit for a terminal and a log: a file may be called so that it clears the screen or forges a line."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


_REQUEST = re.compile(r"(GET|POST|PUT|PATCH|DELETE) /|/v1/|/openapi")


def without_requests(text: str) -> str:
    """Return what an aggregator says, without the clauses on what a program may ask for next."""
    return "; ".join(clause for clause in text.split("; ") if not _REQUEST.search(clause))


class AuricleError(Exception):
    """Root of every error that Auricle raises on purpose; its text is meant for people, on one line."""

    def __str__(self) -> str:
        return printable(super().__str__())


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


class SecureSumError(ProtocolError):
    """A private round's keys, shares or lists are not what the protocol allows; ``device_id``: whose, where known."""

    def __init__(self, message: str, device_id: str | None = None) -> None:
        super().__init__(message)
        self.device_id = device_id


class LabelError(AuricleError):
    """A label map cannot take, rename or find a class."""


class PluginError(AuricleError):
    """A method of a package or a file cannot be loaded, is of another kind, or has a name that is taken."""


class LinkError(AuricleError):
    """Something went wrong between the device and the aggregator."""


class UnreachableError(LinkError):
    """The aggregator does not answer, or not sensibly; worth trying again."""


class CertificateError(UnreachableError):
    """A server's certificate is not one that this device trusts."""


class RefusedError(LinkError):
    """The aggregator said no."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"the aggregator refused ({status} {code}): {message}")
        self.status = status
        self.code = code
