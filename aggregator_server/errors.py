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
    │   ├── LastClassError
    │   ├── DeviceTakenError, SecretTakenError, ClassNameTakenError
    │   ├── NoDevicesError, NoPublicSetError, PublicSetInUseError, FleetFeaturesError
    │   └── NoModelError, ModelTooSmallError, ModelReplacedError
    ├── TooLargeError              more bytes than this server takes
    ├── TooSlowError               fewer bytes than this server waits for
    ├── BusyError                  more at once than this server takes
    │   └── NotReadyError, StateAwayError (the database or the object store does not answer)
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

from typing import ClassVar

from fleet_protocol.errors import AuricleError


class AggregatorError(AuricleError):
    """The aggregator failed unexpectedly; its log says more."""

    code: ClassVar[str] = "internal_error"

    def __init_subclass__(cls, *, code: str | None = None) -> None:
        """Give a class its code; without one it has that of its base."""
        cls.code = code or cls.code


class NotAuthenticatedError(AggregatorError, code="unauthorised"):
    """The bearer token is missing, or is not one that opens this address."""


class ForbiddenError(AggregatorError, code="forbidden"):
    """The caller is known but not allowed."""


class RoleError(ForbiddenError, code="role_too_low"):
    """The token is valid, but its role may not do this."""


class ForgedFormError(ForbiddenError, code="forged_form"):
    """A form of the dashboard was not opened in the session that sends it."""


class InvitationSpentError(ForbiddenError, code="invitation_spent"):
    """The invitation was used up, has expired or was revoked."""


class DeviceWaitingError(ForbiddenError, code="device_waiting"):
    """An operator has yet to admit the device; it asks again later."""


class DeviceRevokedError(ForbiddenError, code="device_revoked"):
    """An administrator revoked the device, or it left."""

    def __init__(self, message: str, device_id: str) -> None:
        super().__init__(message)
        self.device_id = device_id


class NotSelectedError(ForbiddenError, code="not_selected"):
    """The device was not selected for the round, for example because it enrolled later."""


class NotFoundError(AggregatorError, code="not_found"):
    """There is nothing at this address."""


class RoundNotFoundError(NotFoundError, code="round_not_found"):
    """There is no such round."""


class ScheduleNotFoundError(NotFoundError, code="schedule_not_found"):
    """There is no such schedule, or it has ended."""


class DeviceNotFoundError(NotFoundError, code="device_not_found"):
    """There is no such device."""


class ClassNotFoundError(NotFoundError, code="class_not_found"):
    """There is no such class."""


class TokenNotFoundError(NotFoundError, code="token_not_found"):
    """There is no such token."""


class InvitationNotFoundError(NotFoundError, code="invitation_not_found"):
    """There is no such invitation."""


class AuthorityNotFoundError(NotFoundError, code="authority_not_found"):
    """The server has no certificate authority of its own: it does not run with ``--tls auto``."""


class BlobNotFoundError(NotFoundError, code="blob_not_found"):
    """There is no public set, consensus, model or weights with that digest."""


class PublicSetNotFoundError(NotFoundError, code="public_set_not_found"):
    """No public set has been published yet."""


class ModelNotFoundError(NotFoundError, code="model_not_found"):
    """No shared model has been published yet."""


class ConflictError(AggregatorError, code="conflict"):
    """The request is right in itself but not at this time."""


class RoundOpenError(ConflictError, code="round_open"):
    """A round is open; only one may be."""


class RoundClosedError(ConflictError, code="round_closed"):
    """The round is over: its deadline passed, or it is done, failed or cancelled."""


class RoundNotDoneError(ConflictError, code="round_not_done"):
    """The round has no result to learn from."""


class LastClassError(ConflictError, code="last_class"):
    """The fleet would be left without a class, or without a public recording."""


class DuplicateUpdateError(ConflictError, code="duplicate_update"):
    """The device uploaded other bytes for this round before; the first upload stands."""


class UploadReplacedError(ConflictError, code="upload_replaced"):
    """The device began the upload anew meanwhile; that one counts."""


class DeviceTakenError(ConflictError, code="device_taken"):
    """The device identifier is enrolled with another secret."""


class SecretTakenError(ConflictError, code="secret_taken"):
    """Another device enrolled with the same secret."""


class ClassNameTakenError(ConflictError, code="class_name_taken"):
    """Another class has that name."""


class NoDevicesError(ConflictError, code="no_devices"):
    """No device is enrolled, so a round would wait for nobody."""


class NoPublicSetError(ConflictError, code="no_public_set"):
    """A round needs a public set; none has been published yet."""


class NoModelError(ConflictError, code="no_model"):
    """The strategy shares a model; none has been published yet."""


class ModelTooSmallError(ConflictError, code="model_too_small"):
    """The shared model's head has fewer slots than the fleet has classes."""


class PublicSetInUseError(ConflictError, code="public_set_in_use"):
    """The fleet has a consensus or weights by the current public set's classes, so it can no longer be replaced."""


class FleetFeaturesError(ConflictError, code="fleet_features"):
    """Devices are enrolled whose features are not those of the public set."""


class ModelReplacedError(ConflictError, code="model_replaced"):
    """The round would replace devices' own models by the shared one, and the request does not say that it may."""


class TooLargeError(AggregatorError, code="too_large"):
    """The request's body is larger than this server takes."""


class TooSlowError(AggregatorError, code="too_slow"):
    """The request's body arrived too slowly, or not at all; send it again."""


class BusyError(AggregatorError, code="busy"):
    """The server does as much as it can; try again after the seconds of ``Retry-After``."""


class StateAwayError(BusyError, OSError, code="state_away"):
    """The database or the store of the fleet does not answer; nothing was lost: send it again later.

    It is an OSError as well: whatever tries again once a disk has room does so once these answer.
    """


class LeaseLostError(Exception):
    """Another server moves the rounds now, so that this one's step writes nothing; no client sees it."""


class NotReadyError(BusyError, code="not_ready"):
    """This server cannot do its work now: it is shutting down, or cannot use its database or store."""


class TooManyError(AggregatorError, code="too_many"):
    """Too many devices enrolled, or too many requests failed; ``Retry-After`` says when to try again.

    Attributes:
        retry_after_s: Seconds after which it is worth trying again.
    """

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class InvalidError(AggregatorError, code="invalid"):
    """What was sent is wrong in itself."""


class InvalidRequestError(InvalidError, code="invalid_request"):
    """A parameter or a field of the body is missing, of a wrong type or out of range."""


class DigestMismatchError(InvalidError, code="digest_mismatch"):
    """The body's SHA-256 is not the one that the request announced."""


class UnknownStrategyError(InvalidError, code="unknown_strategy"):
    """There is no strategy of that name."""


class InvalidPlanError(InvalidError, code="invalid_plan"):
    """A setting of the round is unknown, of a wrong type or out of range."""


class ForeignFeaturesError(InvalidError, code="feature_mismatch"):
    """Features were computed with other settings than those of the public set."""


class MalformedPublicSetError(InvalidError, code="malformed_public_set"):
    """The body is no public set, or one that cannot be used."""


class MalformedModelError(InvalidError, code="malformed_model"):
    """The body is no model bundle."""


class MalformedUpdateError(InvalidError, code="malformed_update"):
    """The upload is damaged, or its document or arrays are not what the round asks for."""


class WrongPublicSetError(InvalidError, code="wrong_public_set"):
    """The upload scored another public set than the round's."""


class ForeignUpdateError(InvalidError, code="foreign_update"):
    """The upload names another device or another round than the request does."""


class AggregationError(AggregatorError):
    """A round's uploads cannot be combined; the round fails with this as its reason."""


class BlobError(AggregatorError):
    """A blob is missing or damaged; a round that needs it fails with this as its reason."""


class BackupError(AggregatorError):
    """A data folder cannot be copied, restored or checked."""


class StorageFullError(AggregatorError, code="storage_full"):
    """The server's disk is nearly full; nothing is taken in until somebody makes room."""


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
