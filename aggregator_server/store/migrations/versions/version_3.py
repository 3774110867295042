"""Private rounds: the keys that devices sign with, the stage of the open round, and what devices sent for it."""

from alembic import op
from sqlalchemy import JSON, BigInteger, Boolean, Column, Double, ForeignKey, Integer, String, false

revision = "3"
down_revision = "2"


def upgrade() -> None:
    """Make three tables, all empty: a device says its key when it enrols again."""
    whole = Integer().with_variant(BigInteger(), "postgresql")

    def of_round() -> Column[int]:
        return Column("round_id", whole, ForeignKey("rounds.round_id"), primary_key=True)

    def of_device() -> Column[str]:
        return Column("device_id", _text(32), ForeignKey("devices.device_id"), primary_key=True)

    op.create_table("signing_keys", of_device(), Column("key", _text(64), nullable=False))
    op.create_table(
        "private_rounds",
        of_round(),
        Column("stage", _text(16), nullable=False),
        Column("ends_at", Double, nullable=False),
        Column("dropped", JSON, nullable=False),
    )
    op.create_table(
        "private_parts",
        of_round(),
        of_device(),
        Column("keys", JSON, nullable=False),
        Column("group_index", whole),
        Column("place", whole),
        Column("dropped", Boolean, nullable=False, server_default=false()),
        Column("shares", JSON),
        Column("revealed", JSON),
    )
    op.create_index("private_parts_by_group", "private_parts", ["round_id", "group_index", "place"])


def _text(length: int) -> String:
    return String(length).with_variant(String(collation="C"), "postgresql")
