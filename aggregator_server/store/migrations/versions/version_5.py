"""What devices run."""

import sqlalchemy as sa
from alembic import op

revision = "5"
down_revision = "4"


def upgrade() -> None:
    """Add the column; a device says what it runs when it enrols again, which it does whenever it starts."""
    op.add_column("devices", sa.Column("versions", sa.JSON))
