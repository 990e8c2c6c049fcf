"""A memory database that refuses one scope does not keep the answers of other runs from the shared memory."""

from __future__ import annotations

import sqlite3
import uuid
from pathlib import Path

from tests.fixtures.mesh import Mesh
from tests.fixtures.waiting import eventually


def published(database: Path) -> list[str]:
    """Returns the scope of each publication."""
    with sqlite3.connect(database) as db:
        return [scope for (scope,) in db.execute("SELECT scope FROM publications")]


async def test_answers_of_other_sessions_are_published(own_mesh: Mesh) -> None:
    role = f"poet-{uuid.uuid4().hex[:6]}"
    await own_mesh.agent(role)
    (database,) = own_mesh.home.rglob("memory.db")

    async def has(number: int) -> bool:
        return len(published(database)) == number

    await own_mesh.client.run("a verse", roles=[role], session_id="good", timeout=30)
    await eventually(lambda: has(1))
    (scope,) = published(database)
    with sqlite3.connect(database) as db:
        db.execute(
            f"CREATE TRIGGER refuse BEFORE INSERT ON items WHEN NEW.scope = '{scope.replace('good', 'bad')}' "
            "BEGIN SELECT RAISE(ABORT, 'this scope is damaged'); END"
        )
    await own_mesh.client.run("a verse", roles=[role], session_id="bad", timeout=30)
    for number in range(3):
        await own_mesh.client.run(f"verse {number}", roles=[role], session_id="good", timeout=30)
    await eventually(lambda: has(4))
    assert set(published(database)) == {scope}
