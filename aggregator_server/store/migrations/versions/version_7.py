"""Lists of a large fleet get the indices that they are ordered and searched by."""

from alembic import op

revision = "7"
down_revision = "6"
works_with = "6"

# By name: the table, its columns, and the condition of the rows that it has.
_INDICES = {
    "devices_by_enrolment": ("devices", "enrolled_at, device_id", ""),
    "devices_by_invitation": ("devices", "invitation_id, enrolled_at", ""),
    "devices_by_name": ("devices", "{name}, device_id", ""),
    "devices_by_architecture": ("devices", "{architecture}, device_id", ""),
    "devices_by_program": ("devices", "{program}, device_id", ""),
    "devices_by_group": ("devices", "group_name, device_id", ""),
    "devices_by_features": ("devices", "features_digest, device_id", ""),
    "devices_by_clips": ("devices", "clips, device_id", ""),
    "devices_by_seen": ("devices", "seen_at, device_id, revoked_at, waiting", ""),
    "devices_revoked": ("devices", "revoked_at, device_id", "revoked_at IS NOT NULL"),
    "devices_waiting": ("devices", "waiting, revoked_at, seen_at, device_id", "waiting IS {true}"),
    "devices_in_trouble": ("devices", "seen_at, device_id, revoked_at, waiting", "trouble IS NOT NULL"),
    "conduct_in_quarantine": ("conduct", "device_id", "quarantined_at IS NOT NULL"),
    "conduct_suspected": ("conduct", "device_id", "suspicion > 0"),
    "participants_missing": ("participants", "round_id, device_id", "upload IS NULL"),
    "learned_kept_own": ("learned", "round_id", "kept_own IS {true}"),
    "assignments_by_class": ("assignments", "class_id, device_id, slot", ""),
    "audit_by_what": ("audit", "what, audit_id", ""),
    "audit_by_who": ("audit", "{who}, audit_id", ""),
    "audit_by_who_and_what": ("audit", "{who}, what, audit_id", ""),
    "audit_by_time": ("audit", "at, audit_id", ""),
}
_WORDS = {
    "sqlite": {
        "name": "lower(name)",
        "who": "who",
        "architecture": "lower(architecture)",
        "program": "json_extract(versions, '$.program')",
        "true": "1",
    },
    "postgresql": {
        "name": '(lower(name) COLLATE "C")',
        "who": '(who COLLATE "C")',
        "architecture": '(lower(architecture) COLLATE "C")',
        "program": "((versions ->> 'program') COLLATE \"C\")",
        "true": "true",
    },
}


def upgrade() -> None:
    """Add the indices; no row changes."""
    words = _WORDS[op.get_bind().dialect.name]
    for name, (table, columns, condition) in _INDICES.items():
        where = f" WHERE {condition}" if condition else ""
        op.get_bind().exec_driver_sql(f"CREATE INDEX {name} ON {table} ({columns}){where}".format(**words))
