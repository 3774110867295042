"""The aggregator's exceptions: one class for each error code that a client can meet.

AuricleError
└── AggregatorError
    ├── NotAuthenticatedError      no token, or one that opens nothing here
    ├── ForbiddenError             known, but not allowed
    │   ├── RoleError, InvitationSpentError
    │   ├── DeviceRevokedError, DeviceWaitingError
    │   └── NotSelectedError
    ├── NotFoundError              the thing that was named does not exist
    │   ├── RoundNotFoundError, ScheduleNotFoundError, DeviceNotFoundError, ClassNotFoundError
    │   ├── TokenNotFoundError, InvitationNotFoundError, AuthorityNotFoundError
    │   └── BlobNotFoundError, PublicSetNotFoundError, ModelNotFoundError
    ├── ConflictError              right in itself, wrong at this time
    │   ├── RoundOpenError, RoundClosedError, RoundNotDoneError, DuplicateUpdateError
    │   ├── UploadsGoneError, LastClassError, TooManyClassesError
    │   ├── DeviceTakenError, SecretTakenError, ClassNameTakenError
    │   ├── NoDevicesError, NoPublicSetError, PublicSetInUseError, FleetFeaturesError
    │   └── NoModelError, ModelTooSmallError, ModelReplacedError
    ├── TooLargeError              more bytes than this server takes
    ├── TooSlowError               fewer bytes than this server waits for
    ├── BusyError                  more at once than this server takes
    ├── TooManyError               more requests, or devices, than this server takes from one place
    ├── InvalidError               what was sent is wrong in itself
    │   ├── InvalidRequestError, DigestMismatchError
    │   ├── UnknownStrategyError, InvalidPlanError
    │   ├── ForeignFeaturesError, MalformedPublicSetError, MalformedModelError
    │   └── MalformedUpdateError, WrongPublicSetError, ForeignUpdateError
    ├── AggregationError           a round's uploads cannot be combined: the round fails
    ├── BlobError                  a blob is missing or damaged: a round that needs it fails
    ├── StartError                 the data folder, a token, the address or an installed strategy cannot be used
    └── ServerError                a running server, asked by a command, does not answer or says no

A class's ``code`` is what programs see; its docstring is what the documentation says of the code.
"""

from __future__ import annotations

from typing import ClassVar

from fleet_protocol.errors import AuricleError


class AggregatorError(AuricleError):
    """The aggregator failed unexpectedly; its log says more."""

    code: ClassVar[str] = "internal_error"


class NotAuthenticatedError(AggregatorError):
    """The bearer token is missing, or is not one that opens this address."""

    code = "unauthorised"


class ForbiddenError(AggregatorError):
    """The caller is known but not allowed."""

    code = "forbidden"


class RoleError(ForbiddenError):
    """The token is valid, but its role may not do this."""

    code = "role_too_low"


class ForgedFormError(ForbiddenError):
    """A form of the dashboard was not opened in the session that sends it."""

    code = "forged_form"


class InvitationSpentError(ForbiddenError):
    """The invitation was used up, has expired or was revoked."""

    code = "invitation_spent"


class DeviceWaitingError(ForbiddenError):
    """An operator has yet to admit the device; it asks again later."""

    code = "device_waiting"


class DeviceRevokedError(ForbiddenError):
    """An administrator revoked the device, or it left.

    Attributes:
        device_id: The device.
    """

    code = "device_revoked"

    def __init__(self, message: str, device_id: str) -> None:
        super().__init__(message)
        self.device_id = device_id


class NotSelectedError(ForbiddenError):
    """The device was not selected for the round, for example because it enrolled later."""

    code = "not_selected"


class NotFoundError(AggregatorError):
    """There is nothing at this address."""

    code = "not_found"


class RoundNotFoundError(NotFoundError):
    """There is no such round."""

    code = "round_not_found"


class ScheduleNotFoundError(NotFoundError):
    """There is no such schedule, or it has ended."""

    code = "schedule_not_found"


class DeviceNotFoundError(NotFoundError):
    """There is no such device."""

    code = "device_not_found"


class ClassNotFoundError(NotFoundError):
    """There is no such class."""

    code = "class_not_found"


class TokenNotFoundError(NotFoundError):
    """There is no such token."""

    code = "token_not_found"


class InvitationNotFoundError(NotFoundError):
    """There is no such invitation."""

    code = "invitation_not_found"


class AuthorityNotFoundError(NotFoundError):
    """The server has no certificate authority of its own: it does not run with ``--tls auto``."""

    code = "authority_not_found"


class BlobNotFoundError(NotFoundError):
    """There is no public set, consensus, model or weights with that digest."""

    code = "blob_not_found"


class PublicSetNotFoundError(NotFoundError):
    """No public set has been published yet."""

    code = "public_set_not_found"


class ModelNotFoundError(NotFoundError):
    """No shared model has been published yet."""

    code = "model_not_found"


class ConflictError(AggregatorError):
    """The request is right in itself but not at this time."""

    code = "conflict"


class RoundOpenError(ConflictError):
    """A round is open; only one may be."""

    code = "round_open"


class RoundClosedError(ConflictError):
    """The round is over: its deadline passed, or it is done, failed or cancelled."""

    code = "round_closed"


class RoundNotDoneError(ConflictError):
    """The round has no result to learn from."""

    code = "round_not_done"


class UploadsGoneError(ConflictError):
    """The round's uploads, without which its result cannot be computed again, are no longer kept."""

    code = "uploads_gone"


class LastClassError(ConflictError):
    """The fleet would be left without a class, or without a public recording."""

    code = "last_class"


class TooManyClassesError(ConflictError):
    """The fleet has as many classes as it may, or as the shared model's head has slots."""

    code = "too_many_classes"


class DuplicateUpdateError(ConflictError):
    """The device uploaded other bytes for this round before; the first upload stands."""

    code = "duplicate_update"


class UploadReplacedError(ConflictError):
    """The device began the upload anew meanwhile; that one counts."""

    code = "upload_replaced"


class DeviceTakenError(ConflictError):
    """The device identifier is enrolled with another secret."""

    code = "device_taken"


class SecretTakenError(ConflictError):
    """Another device enrolled with the same secret."""

    code = "secret_taken"


class ClassNameTakenError(ConflictError):
    """Another class has that name."""

    code = "class_name_taken"


class NoDevicesError(ConflictError):
    """No device is enrolled, so a round would wait for nobody."""

    code = "no_devices"


class NoPublicSetError(ConflictError):
    """A round needs a public set; none has been published yet."""

    code = "no_public_set"


class NoModelError(ConflictError):
    """The strategy shares a model; none has been published yet."""

    code = "no_model"


class ModelTooSmallError(ConflictError):
    """The shared model's head has fewer slots than the fleet has classes."""

    code = "model_too_small"


class PublicSetInUseError(ConflictError):
    """The fleet has a consensus or weights by the current public set's classes, so it can no longer be replaced."""

    code = "public_set_in_use"


class FleetFeaturesError(ConflictError):
    """Devices are enrolled whose features are not those of the public set."""

    code = "fleet_features"


class ModelReplacedError(ConflictError):
    """The round would replace devices' own models by the shared one, and the request does not say that it may."""

    code = "model_replaced"


class TooLargeError(AggregatorError):
    """The request's body is larger than this server takes."""

    code = "too_large"


class TooSlowError(AggregatorError):
    """The request's body arrived too slowly, or not at all; send it again."""

    code = "too_slow"


class BusyError(AggregatorError):
    """The server does as much as it can; try again after the seconds of ``Retry-After``."""

    code = "busy"


class TooManyError(AggregatorError):
    """Too many devices enrolled, or too many requests failed; ``Retry-After`` says when to try again.

    Attributes:
        retry_after_s: Seconds after which it is worth trying again.
    """

    code = "too_many"

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class InvalidError(AggregatorError):
    """What was sent is wrong in itself."""

    code = "invalid"


class InvalidRequestError(InvalidError):
    """A parameter or a field of the body is missing, of a wrong type or out of range."""

    code = "invalid_request"


class DigestMismatchError(InvalidError):
    """The body's SHA-256 is not the one that the request announced."""

    code = "digest_mismatch"


class UnknownStrategyError(InvalidError):
    """There is no strategy of that name."""

    code = "unknown_strategy"


class InvalidPlanError(InvalidError):
    """A setting of the round is unknown, of a wrong type or out of range."""

    code = "invalid_plan"


class ForeignFeaturesError(InvalidError):
    """Features were computed with other settings than those of the public set."""

    code = "feature_mismatch"


class MalformedPublicSetError(InvalidError):
    """The body is no public set, or one that cannot be used."""

    code = "malformed_public_set"


class MalformedModelError(InvalidError):
    """The body is no model bundle."""

    code = "malformed_model"


class MalformedUpdateError(InvalidError):
    """The upload is damaged, or its document or arrays are not what the round asks for."""

    code = "malformed_update"


class WrongPublicSetError(InvalidError):
    """The upload scored another public set than the round's."""

    code = "wrong_public_set"


class ForeignUpdateError(InvalidError):
    """The upload names another device or another round than the request does."""

    code = "foreign_update"


class AggregationError(AggregatorError):
    """A round's uploads cannot be combined; the round fails with this as its reason."""


class BlobError(AggregatorError):
    """A blob is missing or damaged; a round that needs it fails with this as its reason."""


class BackupError(AggregatorError):
    """A data folder cannot be copied, restored or checked."""


class StorageFullError(AggregatorError):
    """The server's disk is nearly full; nothing is taken in until somebody makes room."""

    code = "storage_full"


class StartError(AggregatorError):
    """The data folder, a token, the address or an installed strategy cannot be used; the program does not start."""


class ServerError(AggregatorError):
    """A running server that a command asked does not answer, or says no.

    Attributes:
        status: HTTP status of the answer; 0: there was none.
        answer: Code of the answer's error; "" where it has none.
    """

    def __init__(self, message: str, status: int = 0, answer: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.answer = answer
