"""Whose memory a run uses: the user, the session, the task and the role, as far as the run knows them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from archon.agent import TaskContext
from archon_mesh.agent.state.agent_state import AgentState

USER_KEY: Final = "dev.archon/user"
"""The key of a run's metadata that names the user."""

LOCAL_USER: Final = "local"
"""The user of an agent that runs in a script without a user id."""

MAX_ID: Final = 256
"""Characters of an id in the metadata of an entry; in place of a longer one its hash is stored."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose run it is. `task` is the task of the mesh, else the outermost run. Empty texts are unknown."""

    user: str
    session: str
    task: str
    role: str

    def metadata(self, kind: str, role: str = "") -> dict[str, str]:
        """Returns the metadata of an entry of this type."""
        pairs = {"user": self.user, "session": self.session, "task": self.task, "role": role or self.role}
        return {**{key: value for key, value in pairs.items() if value}, "type": kind}


def owner_of(state: AgentState) -> Owner | None:
    """Returns whose run it is, or None if the run of a mesh has neither a user nor a session: entries stored for it
    would be recalled for other people.

    The user is, in this order: USER_KEY of the run's metadata, the `user_id` of the agent or of an agent that calls
    it, the session. A script without a user id has one user, LOCAL_USER.
    """
    task = state.context.get("task")
    user = next((each.agent.user_id for each in state.lineage() if each.agent.user_id), "")
    if not isinstance(task, TaskContext):
        return _owner(user or LOCAL_USER, state.thread_id, state.root_run_id, state.agent_name)
    session = task.session_id
    user = task.metadata.get(USER_KEY, "") or user or (f"session/{session}" if session else "")
    return _owner(user, session, task.task_id, state.agent_name) if user else None


def _owner(user: str, session: str, task: str, role: str) -> Owner:
    return Owner(_id(user), _id(session), _id(task), _id(role))


def _id(text: str) -> str:
    if len(text) <= MAX_ID and "\0" not in text:
        return text
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
