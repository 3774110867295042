"""The tables: everything about the fleet that changes, and its blobs."""

from typing import Any, cast

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    ColumnElement,
    Double,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    false,
    literal_column,
    text,
)
from sqlalchemy.orm import DeclarativeBase, InstrumentedAttribute, Mapped, mapped_column

from aggregator_server.store.expressions import folded, program_of
from fleet_protocol.bundle.feature_settings import FeatureSettings
from fleet_protocol.messages.private_rounds import PrivateStage
from fleet_protocol.messages.rest import RoundState

Json = dict[str, Any]

# The values of ClassRow.state. An operator merges and retires active ones; an undone one's round was undone.
ACTIVE, RETIRED, MERGED, UNDONE = ("active", "retired", "merged", "undone")

# The values of RoundRow.state (fleet_protocol.messages.rest.RoundState). rounds/queries.py reads and changes them.
OPEN: RoundState = "open"
DONE: RoundState = "done"
FAILED: RoundState = "failed"
_IS_OPEN = text(f"state = '{OPEN}'")


# SQLite's whole numbers have 64 bits, whatever their column is called.
_WHOLE = Integer().with_variant(BigInteger(), "postgresql")


def _text(length: int) -> String:
    """Return the type of a text: as in SQLite, nothing is cut or refused, and texts are compared by code points."""
    return String(length).with_variant(String(collation="C"), "postgresql")


class Base(DeclarativeBase):
    """Column types. Times are seconds since 1970 (UTC) by the wall clock."""

    type_annotation_map = {Json: JSON, list[str]: JSON, float: Double, int: _WHOLE}  # noqa: RUF012


class BlobRow(Base):
    """A blob on disk; an update only until its round is over."""

    __tablename__ = "blobs"
    sha256: Mapped[str] = mapped_column(_text(64), primary_key=True)
    # Devices may fetch public_set, consensus, model, weights, prototypes; not update, server_state.
    kind: Mapped[str] = mapped_column(_text(16))


class DeviceRow(Base):
    """An enrolled device. Its secret is kept only as a hash."""

    __tablename__ = "devices"
    device_id: Mapped[str] = mapped_column(_text(32), primary_key=True)
    secret_hash: Mapped[str] = mapped_column(_text(64), unique=True)
    name: Mapped[str] = mapped_column(_text(200))
    architecture: Mapped[str] = mapped_column(_text(200))
    features: Mapped[Json]
    features_digest: Mapped[str] = mapped_column(_text(16))
    labels: Mapped[list[str]]
    clips: Mapped[int]  # that it last reported, 0 before that
    label_entropy: Mapped[float | None]  # of these clips, in nats
    network: Mapped[str | None] = mapped_column(_text(64))  # digest of its bundle's network, where it says
    trouble: Mapped[str | None] = mapped_column(_text(200))  # why it could not contribute, in its own words
    versions: Mapped[Json | None] = mapped_column(JSON(none_as_null=True))  # what it says that it runs, no empty texts
    enrolled_at: Mapped[float]
    seen_at: Mapped[float]
    revoked_at: Mapped[float | None]
    invitation_id: Mapped[int | None] = mapped_column(ForeignKey("invitations.invitation_id"))
    group_name: Mapped[str | None] = mapped_column(_text(200))
    waiting: Mapped[bool] = mapped_column(Boolean, default=False, server_default=false())  # for an operator to admit it


# For queries: the devices that may take part.
IS_ACTIVE = DeviceRow.revoked_at.is_(None) & DeviceRow.waiting.is_(False)


class ReputationRow(Base):
    """How a device behaved: its uploads that ``counted``, that the screen dropped, and that were ``refused``."""

    __tablename__ = "conduct"
    device_id: Mapped[str] = mapped_column(ForeignKey("devices.device_id"), primary_key=True)
    counted: Mapped[int]
    screened: Mapped[int]
    refused: Mapped[int]
    refused_in: Mapped[int | None] = mapped_column(ForeignKey("rounds.round_id"))  # the last round that refused one
    refusal: Mapped[str | None] = mapped_column(_text(1000))  # why
    suspicion: Mapped[int]
    quarantined_at: Mapped[float | None]
    reason: Mapped[str | None] = mapped_column(_text(1000))  # of the quarantine


# For queries: the devices whose uploads stood out lately. With a parameter for the 0, no index would answer it.
IS_SUSPECTED = ReputationRow.suspicion > literal_column("0")


class RoundRow(Base):
    """A round: its plan, the blobs that it started from, and once it is done those that it led to.

    The result of an operator's operation (:class:`OperationRow`) is a round without devices.
    """

    __tablename__ = "rounds"
    round_id: Mapped[int] = mapped_column(_WHOLE, primary_key=True)
    state: Mapped[str] = mapped_column(_text(8))
    reason: Mapped[str | None] = mapped_column(_text(1000))
    strategy: Mapped[str] = mapped_column(_text(64))
    plan: Mapped[Json]
    new_classes: Mapped[int | None]
    opened_at: Mapped[float]
    deadline_at: Mapped[float | None]
    closed_at: Mapped[float | None]
    public_set: Mapped[str] = mapped_column(ForeignKey("blobs.sha256"))
    consensus: Mapped[str | None] = mapped_column(ForeignKey("blobs.sha256"))
    result_public_set: Mapped[str | None] = mapped_column(ForeignKey("blobs.sha256"))
    result_consensus: Mapped[str | None] = mapped_column(ForeignKey("blobs.sha256"))
    prototypes: Mapped[str | None] = mapped_column(ForeignKey("blobs.sha256"))
    result_prototypes: Mapped[str | None] = mapped_column(ForeignKey("blobs.sha256"))
    model_version: Mapped[int | None] = mapped_column(ForeignKey("models.version"))
    weights: Mapped[str | None] = mapped_column(ForeignKey("blobs.sha256"))
    server_state: Mapped[str | None] = mapped_column(ForeignKey("blobs.sha256"))
    result_weights: Mapped[str | None] = mapped_column(ForeignKey("blobs.sha256"))
    result_server_state: Mapped[str | None] = mapped_column(ForeignKey("blobs.sha256"))
    training_loss: Mapped[float | None]  # median of those that its devices uploaded
    follows: Mapped[int | None] = mapped_column(ForeignKey("rounds.round_id"))  # of a group's round: the fleet's before
    group_index: Mapped[int | None]  # of that group
    undone_by: Mapped[int | None] = mapped_column(ForeignKey("rounds.round_id"))  # since which no round starts from it
    groups: Mapped[Json | None] = mapped_column(JSON(none_as_null=True), deferred=True)  # schedule of groups
    details: Mapped[Json] = mapped_column(deferred=True)  # large; only read where people look at one round

    __table_args__ = (
        Index("rounds_by_state", "state", "round_id"),
        # The database itself ensures that one round is open at a time.
        Index("one_open_round", "state", unique=True, sqlite_where=_IS_OPEN, postgresql_where=_IS_OPEN),
    )


class OperationRow(Base):
    """What an operator did to the fleet; the round ``round_id`` has its result, and no devices."""

    __tablename__ = "operations"
    round_id: Mapped[int] = mapped_column(ForeignKey("rounds.round_id"), primary_key=True)
    what: Mapped[str] = mapped_column(_text(16))
    restores: Mapped[int | None] = mapped_column(ForeignKey("rounds.round_id"))  # the state after this one
    details: Mapped[Json]  # for people


class ModelRow(Base):
    """A shared model that was published; the highest version is the current one."""

    __tablename__ = "models"
    version: Mapped[int] = mapped_column(_WHOLE, primary_key=True)
    sha256: Mapped[str] = mapped_column(ForeignKey("blobs.sha256"))
    architecture: Mapped[str] = mapped_column(_text(200))
    capacity: Mapped[int]
    parameters: Mapped[int]
    network: Mapped[str | None] = mapped_column(_text(64))  # its digest


class PublicSetRow(Base):
    """A version of the public set; the highest is the current one."""

    __tablename__ = "public_sets"
    version: Mapped[int] = mapped_column(_WHOLE, primary_key=True)
    sha256: Mapped[str] = mapped_column(ForeignKey("blobs.sha256"))
    samples: Mapped[int]
    synthetic: Mapped[int]
    features: Mapped[Json]
    round_id: Mapped[int | None] = mapped_column(ForeignKey("rounds.round_id"))

    @property
    def settings(self) -> FeatureSettings:
        """Settings of its features."""
        return FeatureSettings.from_json(self.features)


class ClassRow(Base):
    """A class that the fleet has or had."""

    __tablename__ = "classes"
    class_id: Mapped[str] = mapped_column(_text(64), primary_key=True)
    name: Mapped[str] = mapped_column(_text(200))
    # The name without case, and the column in scores; of a class that is not active what no name can be, and a number
    # below 0 (fleet/classes.py).
    folded: Mapped[str] = mapped_column(_text(600), unique=True)
    position: Mapped[int] = mapped_column(_WHOLE, unique=True)
    discovered_in: Mapped[int | None] = mapped_column(ForeignKey("rounds.round_id"))
    state: Mapped[str] = mapped_column(_text(8), default=ACTIVE, server_default=ACTIVE)
    merged_into: Mapped[str | None] = mapped_column(ForeignKey("classes.class_id"))


class BackingRow(Base):
    """What an operator says of a class that devices sent."""

    __tablename__ = "class_backing"
    class_id: Mapped[str] = mapped_column(ForeignKey("classes.class_id"), primary_key=True)
    approved: Mapped[bool] = mapped_column(Boolean)
    leaving: Mapped[bool] = mapped_column(Boolean)  # to be retired, for all who sent it were revoked


class SenderRow(Base):
    """A device that sent a class: its sound became that class, or it has clips of it. Of a class, some are noted."""

    __tablename__ = "class_senders"
    class_id: Mapped[str] = mapped_column(ForeignKey("classes.class_id"), primary_key=True)
    device_id: Mapped[str] = mapped_column(ForeignKey("devices.device_id"), primary_key=True)
    agrees: Mapped[bool] = mapped_column(Boolean)  # means the same sound as most that sent it


class RefusalRow(Base):
    """A device does not listen for a class that it tried, as it said of the last result that it learned from."""

    __tablename__ = "class_refusals"
    class_id: Mapped[str] = mapped_column(ForeignKey("classes.class_id"), primary_key=True)
    device_id: Mapped[str] = mapped_column(ForeignKey("devices.device_id"), primary_key=True)
    round_id: Mapped[int] = mapped_column(ForeignKey("rounds.round_id"))
    why: Mapped[str] = mapped_column(_text(16))


class ParticipantRow(Base):
    """A device that was selected for a round, and what it uploaded."""

    __tablename__ = "participants"
    round_id: Mapped[int] = mapped_column(ForeignKey("rounds.round_id"), primary_key=True)
    device_id: Mapped[str] = mapped_column(ForeignKey("devices.device_id"), primary_key=True)
    upload: Mapped[str | None] = mapped_column(ForeignKey("blobs.sha256"))
    uploaded_at: Mapped[float | None]
    clips: Mapped[int | None]
    metrics: Mapped[Json]

    __table_args__ = (Index("participants_by_device", "device_id", "round_id"),)


class LearnedRow(Base):
    """A device learned from a round's result."""

    __tablename__ = "learned"
    round_id: Mapped[int] = mapped_column(ForeignKey("rounds.round_id"), primary_key=True)
    device_id: Mapped[str] = mapped_column(ForeignKey("devices.device_id"), primary_key=True)
    personalised: Mapped[bool] = mapped_column(Boolean)  # whether it also fine-tuned it on its own clips
    kept_own: Mapped[bool] = mapped_column(Boolean)  # whether it refused the result
    metrics: Mapped[Json]


class AssignmentRow(Base):
    """The class that a device's new sound turned out to be; sent until the device has learned it."""

    __tablename__ = "assignments"
    device_id: Mapped[str] = mapped_column(ForeignKey("devices.device_id"), primary_key=True)
    slot: Mapped[int] = mapped_column(_WHOLE, primary_key=True)
    class_id: Mapped[str] = mapped_column(ForeignKey("classes.class_id"))
    round_id: Mapped[int] = mapped_column(ForeignKey("rounds.round_id"))
    acknowledged: Mapped[bool] = mapped_column(Boolean)


class SigningKeyRow(Base):
    """The key by which other devices know a device in private rounds; who cannot take part in them has none."""

    __tablename__ = "signing_keys"
    device_id: Mapped[str] = mapped_column(ForeignKey("devices.device_id"), primary_key=True)
    key: Mapped[str] = mapped_column(_text(64))  # Ed25519, public, hex


class PrivateRoundRow(Base):
    """The stage of a private round that is open (docs/private-rounds.md); removed at its end, and so are its parts."""

    __tablename__ = "private_rounds"
    round_id: Mapped[int] = mapped_column(ForeignKey("rounds.round_id"), primary_key=True)
    stage: Mapped[PrivateStage] = mapped_column(_text(16))
    ends_at: Mapped[float]  # the stage, at the latest
    dropped: Mapped[Json]  # groups that could not go on: why, by their numbers


class PrivatePartRow(Base):
    """What a device sent for the stages of a private round. Shares are encrypted for other devices."""

    __tablename__ = "private_parts"
    round_id: Mapped[int] = mapped_column(ForeignKey("rounds.round_id"), primary_key=True)
    device_id: Mapped[str] = mapped_column(ForeignKey("devices.device_id"), primary_key=True)
    keys: Mapped[Json]  # a messages.private_rounds.Member, without the device's identifier
    group_index: Mapped[int | None]  # of its group; None before the deal
    place: Mapped[int | None]  # in the group
    dropped: Mapped[bool] = mapped_column(Boolean, default=False, server_default=false())  # with its whole group
    shares: Mapped[Json | None] = mapped_column(JSON(none_as_null=True))  # a messages.private_rounds.EncryptedShares
    revealed: Mapped[Json | None] = mapped_column(JSON(none_as_null=True))  # a messages.private_rounds.RevealedShares

    __table_args__ = (Index("private_parts_by_group", "round_id", "group_index", "place"),)


class TokenRow(Base):
    """A person's token, kept only as a hash."""

    __tablename__ = "tokens"
    token_id: Mapped[int] = mapped_column(_WHOLE, primary_key=True)
    token_hash: Mapped[str] = mapped_column(_text(64), unique=True)
    name: Mapped[str] = mapped_column(_text(200))
    role: Mapped[str] = mapped_column(_text(8))
    made_at: Mapped[float]
    expires_at: Mapped[float | None]
    revoked_at: Mapped[float | None]


class SessionRow(Base):
    """Somebody who signed in to the dashboard."""

    __tablename__ = "sessions"
    session_hash: Mapped[str] = mapped_column(_text(64), primary_key=True)  # of what the browser keeps
    token_id: Mapped[int | None] = mapped_column(ForeignKey("tokens.token_id"))
    # The token of ``tokens.json`` has no number: this shows, to whoever has both secrets, that it was this one.
    proof: Mapped[str | None] = mapped_column(_text(64))
    made_at: Mapped[float]
    expires_at: Mapped[float]


class InvitationRow(Base):
    """An invitation for ``devices`` devices, of which ``used`` have come; kept only as a hash."""

    __tablename__ = "invitations"
    invitation_id: Mapped[int] = mapped_column(_WHOLE, primary_key=True)
    token_hash: Mapped[str] = mapped_column(_text(64), unique=True)
    devices: Mapped[int]
    used: Mapped[int]
    group_name: Mapped[str | None] = mapped_column(_text(200))
    made_at: Mapped[float]
    expires_at: Mapped[float | None]
    revoked_at: Mapped[float | None]


class AuditRow(Base):
    """What happened: ``who`` did ``what`` from which network address. No row is ever changed."""

    __tablename__ = "audit"
    audit_id: Mapped[int] = mapped_column(_WHOLE, primary_key=True)
    at: Mapped[float]
    who: Mapped[str] = mapped_column(_text(300))
    address: Mapped[str | None] = mapped_column(_text(64))
    what: Mapped[str] = mapped_column(_text(32))
    details: Mapped[Json]


def _table(kind: type[Base]) -> Table:
    return cast("Table", kind.__table__)


# For statements that every request of a device needs: on a table, built once, one takes a quarter of the time.
ASSIGNMENTS, LEARNED, PARTICIPANTS = _table(AssignmentRow), _table(LearnedRow), _table(ParticipantRow)
BLOBS, MODELS, PUBLIC_SETS, ROUNDS = _table(BlobRow), _table(ModelRow), _table(PublicSetRow), _table(RoundRow)
CLASSES, REFUSALS, SENDERS = _table(ClassRow), _table(RefusalRow), _table(SenderRow)
DEVICES, REPUTATIONS = _table(DeviceRow), _table(ReputationRow)
PARTS, STAGES = _table(PrivatePartRow), _table(PrivateRoundRow)


def _partial(name: str, condition: ColumnElement[bool], *columns: InstrumentedAttribute[Any]) -> None:
    Index(name, *columns, sqlite_where=condition, postgresql_where=condition)


# What lists of a large fleet are ordered and searched by.
Index("devices_by_enrolment", DeviceRow.enrolled_at, DeviceRow.device_id)
Index("devices_by_invitation", DeviceRow.invitation_id, DeviceRow.enrolled_at)
Index("devices_by_name", folded(DeviceRow.name), DeviceRow.device_id)
Index("devices_by_program", program_of(DeviceRow.versions), DeviceRow.device_id)
Index("devices_by_features", DeviceRow.features_digest, DeviceRow.device_id)
# The last columns of these are for counts, which then read no row of the table.
Index("devices_by_seen", DeviceRow.seen_at, DeviceRow.device_id, DeviceRow.revoked_at, DeviceRow.waiting)
_partial("devices_revoked", DeviceRow.revoked_at.is_not(None), DeviceRow.revoked_at, DeviceRow.device_id)
_partial(
    "devices_waiting",
    DeviceRow.waiting.is_(True),
    *(DeviceRow.waiting, DeviceRow.revoked_at, DeviceRow.seen_at, DeviceRow.device_id),
)
_partial(
    "devices_in_trouble",
    DeviceRow.trouble.is_not(None),
    *(DeviceRow.seen_at, DeviceRow.device_id, DeviceRow.revoked_at, DeviceRow.waiting),
)
_partial("conduct_in_quarantine", ReputationRow.quarantined_at.is_not(None), ReputationRow.device_id)
_partial("conduct_suspected", IS_SUSPECTED, ReputationRow.device_id)
_partial("participants_missing", ParticipantRow.upload.is_(None), ParticipantRow.round_id, ParticipantRow.device_id)
_partial("learned_kept_own", LearnedRow.kept_own.is_(True), LearnedRow.round_id)
Index("assignments_by_class", AssignmentRow.class_id, AssignmentRow.device_id, AssignmentRow.slot)
Index("class_senders_by_device", SenderRow.device_id, SenderRow.class_id)
Index("class_refusals_by_device", RefusalRow.device_id, RefusalRow.class_id)
Index("audit_by_what", AuditRow.what, AuditRow.audit_id)
Index("audit_by_time", AuditRow.at, AuditRow.audit_id)
