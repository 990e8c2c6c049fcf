"""`archon verify` and `archon audit` on a mesh of `archon up`, whose journal another program changes."""

from __future__ import annotations

import json
import re
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

from archon.history import PublicKeys
from tests.e2e.terminal import Terminal
from tests.fixtures.waiting import wait_until

INTACT = r"run {}: \d+ steps, \d+ events, sealed by key [0-9a-f]{{16}} at [-0-9: ]+ \w+: intact\n"


def change(terminal: Terminal, statement: str, *values: object) -> None:
    """Executes a statement as an attacker with access to the file does."""
    with closing(sqlite3.connect(terminal.home / "journal.db", isolation_level=None, timeout=10)) as db:
        assert db.execute(statement, values).rowcount == 1


def test_a_step_that_sqlite3_changed_is_named(terminal: Terminal, finished: str) -> None:
    intact = terminal.archon("verify", finished)
    assert intact.code == 0 and re.fullmatch(INTACT.format(finished), intact.out), intact
    with closing(sqlite3.connect(terminal.home / "journal.db")) as db:
        where = "WHERE run_id = ? ORDER BY base LIMIT 1 OFFSET 1"
        base, data = db.execute(f"SELECT base, data FROM steps {where}", (finished,)).fetchone()
    update = "UPDATE steps SET data = ? WHERE run_id = ? AND base = ?"
    change(terminal, update, data[:-1] + bytes([data[-1] ^ 1]), finished, base)
    try:
        broken = terminal.archon("verify", finished)
        fault = f"run {finished}: the step after event {base} was changed: its link does not match\n"
        assert (broken.code, broken.out) == (1, fault)
    finally:
        change(terminal, update, data, finished, base)
    assert terminal.archon("verify", finished).code == 0


def test_a_saved_history_verifies_with_the_public_key_alone(terminal: Terminal, finished: str, tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    assert terminal.archon("verify", finished, "--save", str(file)).code == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    key = tmp_path / "audit.pub.pem"
    key.write_bytes((terminal.home / "audit.pub.pem").read_bytes())
    elsewhere = Terminal(tmp_path / "no-mesh")
    verified = elsewhere.archon("verify", "--file", str(file), "--key", str(key))
    assert verified.code == 0 and re.fullmatch(INTACT.format(finished), verified.out), verified
    report = json.loads(elsewhere.archon("verify", "--file", str(file), "--key", str(key), "--json").out)
    assert (report["proven"], report["complete"], report["fault"]) == (True, True, "")
    without = elsewhere.archon("verify", "--file", str(file))
    assert without.code == 1 and "without a public key (--key FILE) no seal is verified" in without.out
    assert "PRIVATE" not in key.read_text() and PublicKeys.read(key).keys


def test_the_audit_log_names_the_user_and_verifies(terminal: Terminal, finished: str) -> None:
    def verified() -> bool:
        return terminal.archon("audit", "verify").code == 0

    wait_until(verified)
    entries = json.loads(terminal.archon("audit", "list", "--run", finished, "--json").out)
    (entry,) = [each for each in entries if each["action"] == "run.submit"]  # others may rate or fork the run
    assert (entry["action"], entry["run_id"], entry["actors"]) == ("run.submit", finished, [])
    assert entry["identity"] in terminal.archon("show", finished).out
    assert "run.submit" in terminal.archon("audit").out
    assert terminal.archon("audit", "list", "--since", "soon").code == 2
    for wrong in (("verify",), ("verify", finished, "--file", "x")):
        assert terminal.archon(*wrong).code == 2, wrong
    viewer = Terminal(
        terminal.home.parent,
        ARCHON_ORCHESTRATOR=terminal.state().address("orchestrator"),
        ARCHON_TOKEN=terminal.archon("token", "--kind", "viewer").out.strip(),
    )
    assert "may not call" in viewer.archon("audit").err


def test_a_history_verifies_after_the_key_was_replaced(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path / "home")
    assert terminal.archon("audit", "rotate-key").code == 1
    assert terminal.archon("token", "init").code == 0
    before = PublicKeys.read(terminal.home / "audit.pub.pem").keys
    rotated = terminal.archon("audit", "rotate-key")
    assert rotated.code == 0 and "archon restart orchestrator" in rotated.out
    after = PublicKeys.read(terminal.home / "audit.pub.pem").keys
    assert before.keys() < after.keys() and len(after) == 2
    assert stat.S_IMODE((terminal.home / "audit-key.pem").stat().st_mode) == 0o600
