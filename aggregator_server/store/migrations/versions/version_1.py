"""The tables of the first release. No migration leads to them: tables without a revision are refused."""

revision = "1"
down_revision = None
