"""Files of a history: no request has more than its newest ones, so that the others need not be kept."""

from __future__ import annotations

from typing import Final

from archon_mesh.agent.state.history import HistoryList

MAX_KEPT: Final = 64 * 1024 * 1024
"""Bytes of the files of a history."""


def drop_old_files(history: HistoryList) -> None:
    """Replaces files by their labels, the oldest first and down to half of MAX_KEPT, if a history has more than that.
    Files of the current run's query stay."""
    sizes = [sum(len(file.data) for file in message.files) for message in history]
    left = sum(sizes)
    if left <= MAX_KEPT:
        return
    messages = list(history)
    for index, (message, size) in enumerate(zip(history, sizes, strict=True)):
        if left <= MAX_KEPT // 2:
            break
        if size and not (message.role == "user" and message.run_id == history.run_id):
            messages[index] = message.without_files()
            left -= size
    history.replace_all(messages)
