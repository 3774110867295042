"""An aggregator may be a device of another one: who it is there, and which of its rounds are for that one's."""

import sqlalchemy as sa
from alembic import op

revision = "8"
down_revision = "7"


def upgrade() -> None:
    """Add a table without rows, and a column of the rounds without a value."""
    whole = sa.Integer().with_variant(sa.BigInteger(), "postgresql")

    def text(length: int) -> sa.String:
        return sa.String(length).with_variant(sa.String(collation="C"), "postgresql")

    op.create_table(
        "region",
        sa.Column("region_id", whole, primary_key=True),
        sa.Column("urls", sa.JSON, nullable=False),
        sa.Column("authority", text(16_384)),
        sa.Column("device_id", text(32), nullable=False),
        sa.Column("secret", text(200), nullable=False),
        sa.Column("next_secret", text(200), nullable=False),
        sa.Column("name", text(200), nullable=False),
        sa.Column("rule", sa.JSON),
        sa.Column("joined_at", sa.Double, nullable=False),
        sa.Column("part", whole, sa.ForeignKey("rounds.round_id")),
        sa.Column("adopted", whole),
        sa.Column("declined", whole),
        sa.Column("trouble", text(1000)),
        sa.Column("problem", text(1000)),
    )
    op.add_column("rounds", sa.Column("upper_round", whole))
