"""Who stands behind each class: its senders, who refused it, and what an operator says of it."""

from alembic import op
from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Integer, String

revision = "2"
down_revision = "1"


def upgrade() -> None:
    """Make three tables. Whoever reported a class until now counts as its sender."""
    op.create_table(
        "class_backing",
        _named("class_id", 64, "classes.class_id"),
        Column("approved", Boolean, nullable=False),
        Column("leaving", Boolean, nullable=False),
    )
    op.create_table(
        "class_senders",
        _named("class_id", 64, "classes.class_id"),
        _named("device_id", 32, "devices.device_id"),
        Column("agrees", Boolean, nullable=False),
    )
    round_id = Integer().with_variant(BigInteger(), "postgresql")
    op.create_table(
        "class_refusals",
        _named("class_id", 64, "classes.class_id"),
        _named("device_id", 32, "devices.device_id"),
        Column("round_id", round_id, ForeignKey("rounds.round_id"), nullable=False),
        Column("why", _text(16), nullable=False),
    )
    for table in ("class_senders", "class_refusals"):
        op.create_index(f"{table}_by_device", table, ["device_id", "class_id"])
    op.execute(
        "INSERT INTO class_senders (class_id, device_id, agrees) "
        "SELECT DISTINCT class_id, device_id, TRUE FROM assignments"
    )


def _named(name: str, length: int, of: str) -> Column[str]:
    return Column(name, _text(length), ForeignKey(of), primary_key=True)


def _text(length: int) -> String:
    return String(length).with_variant(String(collation="C"), "postgresql")
