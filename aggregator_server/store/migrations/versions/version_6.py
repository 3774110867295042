"""What operators did gets a table of its own, and so do schedules."""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "6"
down_revision = "5"


def upgrade() -> None:
    """Move what operators did out of the rounds that have its results, and series of rounds into schedules."""
    _let_operations_stand_apart()
    series = _read_series()
    _add_schedules()
    # The columns refer to other tables, so the table is copied without them.
    with op.batch_alter_table("rounds", recreate="always") as rounds:
        for column in ("operation", "restores", "series"):
            rounds.drop_column(column)
    op.execute("ALTER TABLE rounds ADD COLUMN schedule_id INTEGER REFERENCES schedules (schedule_id)")
    op.create_index("rounds_by_schedule", "rounds", ["schedule_id", "round_id"])
    _keep_series(series)


def _let_operations_stand_apart() -> None:
    op.create_table(
        "operations",
        sa.Column("round_id", sa.Integer, sa.ForeignKey("rounds.round_id"), primary_key=True),
        sa.Column("what", sa.String(16), nullable=False),
        sa.Column("restores", sa.Integer, sa.ForeignKey("rounds.round_id")),
        sa.Column("details", sa.JSON, nullable=False),
    )
    found = sa.text("SELECT round_id, operation, restores, details FROM rounds WHERE operation IS NOT NULL")
    for round_id, what, restores, text in op.get_bind().execute(found).all():
        details = json.loads(str(text))
        moved = {"what": what, "restores": restores, "details": json.dumps(details.pop("operation", {}))}
        op.get_bind().execute(
            sa.text("INSERT INTO operations VALUES (:round_id, :what, :restores, :details)"),
            moved | {"round_id": round_id},
        )
        op.get_bind().execute(
            sa.text("UPDATE rounds SET details = :details WHERE round_id = :round_id"),
            {"details": json.dumps(details), "round_id": round_id},
        )


def _add_schedules() -> None:
    op.create_table(
        "schedules",
        sa.Column("schedule_id", sa.Integer, primary_key=True),
        sa.Column("request", sa.JSON, nullable=False),
        sa.Column("daily_at", sa.String(5)),
        sa.Column("zone", sa.String(64)),
        sa.Column("interval_s", sa.Double),
        sa.Column("made_at", sa.Double, nullable=False),
        sa.Column("next_at", sa.Double, nullable=False),
        sa.Column("ended_at", sa.Double),
        sa.Column("problem", sa.String(1000)),
    )


def _read_series() -> list[dict[str, Any]]:
    """Return the series of continuous rounds: their rounds, and of the last one what a schedule needs."""
    rows = sa.text(
        "SELECT series, round_id, state = 'open' AS is_open, strategy, plan, opened_at, closed_at FROM rounds "
        "WHERE series IS NOT NULL ORDER BY round_id"
    )
    found: dict[int, dict[str, Any]] = {}
    for row in op.get_bind().execute(rows).mappings():
        known = found.setdefault(row["series"], {"rounds": [], "made_at": row["opened_at"]})
        known["rounds"].append(row["round_id"])
        known["ended_at"] = None if row["is_open"] else row["closed_at"]
        known["request"] = _request(row["strategy"], json.loads(row["plan"]))
    return list(found.values())


def _request(strategy: str, plan: dict[str, Any]) -> dict[str, Any]:
    """Return the request that leads to a plan."""
    kept = ("aggregation", "selection", "deadline_s", "quorum", "seed", "personalisation", "rounds", "every_s")
    settings = {"strategy": strategy, "settings": plan["local"]["settings"], "replace_model": True}
    return settings | {name: plan[name] for name in kept if name in plan}


def _keep_series(series: list[dict[str, Any]]) -> None:
    for number, found in enumerate(series, start=1):
        values = {"request": json.dumps(found["request"]), "made": found["made_at"], "ended": found["ended_at"]}
        op.get_bind().execute(
            sa.text(
                "INSERT INTO schedules (schedule_id, request, made_at, next_at, ended_at) "
                "VALUES (:number, :request, :made, :made, :ended)"
            ),
            values | {"number": number},
        )
        for round_id in found["rounds"]:
            op.get_bind().execute(
                sa.text("UPDATE rounds SET schedule_id = :number WHERE round_id = :round_id"),
                {"number": number, "round_id": round_id},
            )
