"""The aggregator's exceptions, and the codes by which a client knows them, with status and meaning.

A request that is refused raises :class:`RefusedError` with a code of the table. Those that code catches, or that carry
more than a message, have classes of their own.
"""

from fleet_protocol.errors import AuricleError

CODES: dict[str, tuple[int, str]] = {
    "internal_error": (500, "The aggregator failed unexpectedly; its log says more."),
    "unauthorised": (401, "The bearer token is missing, or is not one that opens this address."),
    "role_too_low": (403, "The token is valid, but its role may not do this."),
    "forged_form": (403, "Another site sent a form of the dashboard."),
    "invitation_spent": (403, "The invitation was used up, has expired or was revoked."),
    "device_waiting": (403, "An operator has yet to admit the device; it asks again later."),
    "device_revoked": (403, "An administrator revoked the device, or it left."),
    "not_selected": (403, "The device was not selected for the round, for example because it enrolled later."),
    "not_found": (404, "There is nothing at this address."),
    "round_not_found": (404, "There is no such round."),
    "device_not_found": (404, "There is no such device."),
    "class_not_found": (404, "There is no such class."),
    "token_not_found": (404, "There is no such token."),
    "invitation_not_found": (404, "There is no such invitation."),
    "authority_not_found": (
        404,
        "The server has no certificate authority of its own: it does not run with ``--tls auto``.",
    ),
    "blob_not_found": (404, "There is no public set, consensus, model or weights with that digest."),
    "public_set_not_found": (404, "No public set has been published yet."),
    "model_not_found": (404, "No shared model has been published yet."),
    "method_not_allowed": (405, "This address does not take that method."),
    "round_open": (409, "A round is open; only one may be."),
    "round_closed": (409, "The round is over: its deadline passed, or it is done, failed or cancelled."),
    "stage_over": (409, "The private round is in another stage, or the device missed one."),
    "round_not_done": (409, "The round has no result to learn from."),
    "last_class": (409, "The fleet would be left without a class, or without a public recording."),
    "duplicate_update": (409, "The device uploaded other bytes for this round before; the first upload stands."),
    "upload_replaced": (409, "The device began the upload anew meanwhile; that one counts."),
    "device_taken": (409, "The device identifier is enrolled with another secret."),
    "secret_taken": (409, "Another device enrolled with the same secret."),
    "class_name_taken": (409, "Another class has that name."),
    "no_devices": (409, "No device is enrolled, so a round would wait for nobody."),
    "no_public_set": (409, "A round needs a public set; none has been published yet."),
    "no_model": (409, "The strategy shares a model; none has been published yet."),
    "model_too_small": (409, "The shared model's head has fewer slots than the fleet has classes."),
    "public_set_in_use": (
        409,
        "The fleet has a consensus or weights by the current public set's classes, so it can no longer be replaced.",
    ),
    "fleet_features": (409, "Devices are enrolled whose features are not those of the public set."),
    "too_large": (413, "The request's body is larger than this server takes."),
    "too_slow": (408, "The request's body arrived too slowly, or not at all; send it again."),
    "busy": (503, "The server does as much as it can; try again after the seconds of ``Retry-After``."),
    "state_away": (
        503,
        "The database or the store of the fleet does not answer; nothing was lost: send it again later.",
    ),
    "not_ready": (503, "This server cannot do its work now: it cannot use its database or store."),
    "too_many": (429, "Too many devices enrolled; ``Retry-After`` says when to try again."),
    "invalid_request": (422, "A parameter or a field of the body is missing, of a wrong type or out of range."),
    "digest_mismatch": (422, "The body's SHA-256 is not the one that the request announced."),
    "unknown_strategy": (422, "There is no strategy of that name."),
    "invalid_plan": (422, "A setting of the round is unknown, of a wrong type or out of range."),
    "feature_mismatch": (422, "Features were computed with other settings than those of the public set."),
    "malformed_public_set": (422, "The body is no public set, or one that cannot be used."),
    "malformed_model": (422, "The body is no model bundle."),
    "malformed_update": (422, "The upload is damaged, or its document or arrays are not what the round asks for."),
    "wrong_public_set": (422, "The upload scored another public set than the round's."),
    "foreign_update": (422, "The upload names another device or another round than the request does."),
    "storage_full": (507, "The server's disk is nearly full; nothing is taken in until somebody makes room."),
}
"""HTTP status and meaning of every code that a program can meet; its documentation shows them."""


class AggregatorError(AuricleError):
    """Something that the aggregator says no to, or cannot do; without a code of its own it is unforeseen."""

    code = "internal_error"


class RefusedError(AggregatorError):
    """A request is refused, for the reason that its code says."""

    def __init__(self, code: str, message: str) -> None:
        assert code in CODES, code
        super().__init__(message)
        self.code = code


class NotAuthenticatedError(AggregatorError):
    """The bearer token is missing, or is not one that opens this address."""

    code = "unauthorised"


class InvitationSpentError(AggregatorError):
    """The invitation was used up, has expired or was revoked."""

    code = "invitation_spent"


class DeviceRevokedError(AggregatorError):
    """An administrator revoked the device, or it left."""

    code = "device_revoked"

    def __init__(self, message: str, device_id: str) -> None:
        super().__init__(message)
        self.device_id = device_id


class RoundNotFoundError(AggregatorError):
    """There is no such round."""

    code = "round_not_found"


class ClassNotFoundError(AggregatorError):
    """There is no such class."""

    code = "class_not_found"


class InvalidRequestError(AggregatorError):
    """A parameter or a field of the body is missing, of a wrong type or out of range."""

    code = "invalid_request"


class MalformedUpdateError(AggregatorError):
    """The upload is damaged, or its document or arrays are not what the round asks for."""

    code = "malformed_update"


class StateAwayError(AggregatorError, OSError):
    """The database or the store of the fleet does not answer; nothing was lost: send it again later.

    It is an OSError as well: whatever tries again once a disk has room does so once these answer.
    """

    code = "state_away"


class TooManyError(AggregatorError):
    """Too many devices enrolled. ``retry_after_s``: seconds after which it is worth trying again."""

    code = "too_many"

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class LeaseLostError(Exception):
    """Another server moves the rounds now, so that this one's step writes nothing; no client sees it."""


class AggregationError(AggregatorError):
    """A round's uploads cannot be combined; the round fails with this as its reason."""


class BlobError(AggregatorError):
    """A blob is missing or damaged; a round that needs it fails with this as its reason."""


class BackupError(AggregatorError):
    """A data folder cannot be copied, restored or checked."""


class StartError(AggregatorError):
    """The data folder, a token, the address or an installed strategy cannot be used; the program does not start."""


class ServerError(AggregatorError):
    """A running server that a command asked does not answer, or says no."""
