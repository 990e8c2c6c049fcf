"""The tables after the newest migration; a test compares the migrations with them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sqlalchemy import BigInteger, Boolean, Column, Double, Identity, Index, Integer, LargeBinary, MetaData, Table, Text
from sqlalchemy import false as sql_false
from sqlalchemy import text as sql_text

from archon_services.postgres.migrations import Schema

SCHEMA: Final = Schema(
    "archon_journal", folder=Path(__file__).parent / "migrations", head="0010", lock=0x6172_6368_6A6F_7572
)

metadata: Final = MetaData(schema=SCHEMA.name)


def _text(name: str, *, key: bool = False) -> Column[str]:
    return Column(name, Text, nullable=False, primary_key=key)


def _number(name: str, *, key: bool = False) -> Column[int]:
    return Column(name, BigInteger, nullable=False, primary_key=key, autoincrement=False)


def _bytes(name: str) -> Column[bytes]:
    return Column(name, LargeBinary, nullable=False)


runs: Final = Table(
    "runs",
    metadata,
    _text("run_id", key=True),
    _text("tenant"),
    _text("session_id"),
    _text("owner"),
    _number("epoch"),
    _number("last_seq"),
    Column("state", Integer, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("ended_at", Double, nullable=False),
    Column("compacted", Boolean, nullable=False, server_default=sql_false()),
    Column("summary", LargeBinary, nullable=False, server_default=sql_text("''::bytea")),
    Column("revision", Integer, nullable=False, server_default=sql_text("1")),
    Column("stalled", Integer, nullable=False, server_default=sql_text("0")),
    Column("claimed_seq", BigInteger, nullable=False, server_default=sql_text("-1")),
)
_open, _ended = runs.c.ended_at == 0, runs.c.ended_at > 0
Index("runs_newest", runs.c.tenant, runs.c.created_at, runs.c.run_id)
Index(
    "runs_of_session",
    *(runs.c.tenant, runs.c.session_id, runs.c.created_at, runs.c.run_id),
    postgresql_where=runs.c.session_id != "",
)
Index("runs_open", runs.c.created_at, runs.c.run_id, postgresql_where=_open)
Index("runs_open_of_owner", runs.c.owner, runs.c.created_at, runs.c.run_id, postgresql_where=_open)
Index("runs_ended", runs.c.ended_at, postgresql_where=_ended)
Index("runs_to_compact", runs.c.ended_at, postgresql_where=_ended & ~runs.c.compacted)

steps: Final = Table(
    "steps",
    metadata,
    _text("run_id", key=True),
    _number("base", key=True),
    _number("last_seq"),
    _text("batch_id"),
    _bytes("data"),
    _bytes("inputs"),
    Column("checksum", BigInteger),  # 32 bits without a sign; none in rows of earlier versions
    Column("link", LargeBinary),
    Column("seal", LargeBinary),
)
records: Final = Table(
    "records", metadata, _text("run_id", key=True), _number("ordinal", key=True), _text("role"), _bytes("data")
)
requests: Final = Table(
    "requests",
    metadata,
    _text("tenant", key=True),
    _text("request_id", key=True),
    _bytes("payload_hash"),
    _text("run_id"),
    Column("expires_at", Double, nullable=False, server_default=sql_text("0")),  # 0 while its run exists
)
Index("requests_of_run", requests.c.run_id)
Index("requests_expiring", requests.c.expires_at, postgresql_where=requests.c.expires_at > 0)

outbox: Final = Table(
    "outbox",
    metadata,
    Column("row_id", BigInteger, Identity(always=True), primary_key=True),
    _text("run_id"),
    _number("epoch"),
    _text("scope"),
    _text("role"),
    _text("task_id"),
    _number("seq"),
    Column("content", LargeBinary),  # UTF-8, in rows of earlier versions only
)
Index("outbox_of_run", outbox.c.run_id)

owners: Final = Table(
    "owners",
    metadata,
    _text("owner", key=True),
    _text("address"),
    Column("revision", Integer, nullable=False),
    _number("beat"),
)
commands: Final = Table(
    "commands",
    metadata,
    Column("row_id", BigInteger, Identity(always=True), primary_key=True),
    _text("run_id"),
    _bytes("data"),
)
Index("commands_of_run", commands.c.run_id, commands.c.row_id)

turns: Final = Table(
    "turns",
    metadata,
    _text("tenant", key=True),
    _text("session_id", key=True),
    _text("role", key=True),
    _number("version", key=True),
    Column("time", Double, nullable=False),
    _bytes("data"),
    Column("checksum", BigInteger),
)
Index("turns_time", turns.c.time)

track_records: Final = Table(
    "track_records",
    metadata,
    _text("owner", key=True),
    _text("tenant", key=True),
    _text("role", key=True),
    _text("instance_id", key=True),
    Column("time", Double, nullable=False),
    _bytes("data"),
)
Index("track_records_time", track_records.c.time)

ratings: Final = Table(
    "ratings",
    metadata,
    _text("run_id", key=True),
    _text("identity", key=True),
    Column("stars", Integer, nullable=False),
    _text("comment"),
    Column("time", Double, nullable=False),
)

marks: Final = Table(
    "marks",
    metadata,
    _text("run_id", key=True),
    _text("identity", key=True),
    _text("reason"),
    Column("time", Double, nullable=False),
)

learned_versions: Final = Table(
    "learned_versions",
    metadata,
    _text("tenant", key=True),
    _number("version", key=True),
    Column("time", Double, nullable=False),
    _bytes("data"),
)

learned_evidence: Final = Table(
    "learned_evidence", metadata, _text("tenant", key=True), _number("revision"), _bytes("data")
)

learned_outcomes: Final = Table("learned_outcomes", metadata, _text("run_id", key=True), _text("source", key=True))

triggers: Final = Table(
    "triggers",
    metadata,
    _text("tenant", key=True),
    _text("kind", key=True),
    Column("name", Text(collation="C"), nullable=False, primary_key=True),
    _number("revision"),
    Column("due", Double, nullable=False),
    _text("owner"),
    _bytes("data"),
)
Index("triggers_due", triggers.c.kind, triggers.c.due)

fires: Final = Table(
    "fires",
    metadata,
    _text("tenant", key=True),
    _text("kind", key=True),
    Column("name", Text(collation="C"), nullable=False, primary_key=True),
    _text("fire_id", key=True),
    _number("number"),
    _text("run_id"),
    Column("running", Boolean, nullable=False),
    _bytes("data"),
)
Index("fires_newest", fires.c.tenant, fires.c.kind, fires.c.name, fires.c.number)
Index("fires_running", fires.c.kind, fires.c.run_id, postgresql_where=fires.c.running)

daily_usage: Final = Table(
    "daily_usage",
    metadata,
    _number("day", key=True),
    _text("owner", key=True),
    _text("tenant", key=True),
    _text("identity", key=True),
    _number("runs"),
    _number("bytes"),
    _number("tokens"),
    _number("micro_usd"),
)

audit: Final = Table(
    "audit",
    metadata,
    Column("row_id", BigInteger, Identity(always=True), primary_key=True),
    _text("chain"),
    Column("number", BigInteger, nullable=False, server_default=sql_text("0")),  # 0: not linked yet
    _text("tenant"),
    Column("time", Double, nullable=False),
    _text("identity"),
    _text("action"),
    _text("run_id"),
    _bytes("data"),
    Column("digest", LargeBinary),
    Column("link", LargeBinary),
    Column("seal", LargeBinary),
)
Index("audit_chain", audit.c.chain, audit.c.number, unique=True, postgresql_where=audit.c.number > 0)
Index("audit_unlinked", audit.c.row_id, postgresql_where=audit.c.number == 0)
Index("audit_newest", audit.c.tenant, audit.c.row_id)
