"""Tools of examples/librarian.yaml."""

from __future__ import annotations

from typing import Any

from archon_mesh.tools import Tool

COPIES = {"the lighthouse": 2, "a garden bench": 0}


def find_book(title: str) -> str:
    """Says how many copies of a book are in."""
    return f"{title}: {COPIES.get(title.lower(), 0)} copies are in."


def has_answer(state: Any, answer: str | None) -> bool | str:
    """Accepts every answer that is not empty."""
    return bool(answer and answer.strip()) or "Answer the reader's question."


class Catalogue(Tool):
    """A tool that is created with an argument from the file."""

    name = "catalogue"
    description = "Lists the titles of the catalogue, the recommended one first."
    credentials = ("catalogue_key",)

    def __init__(self, title: str) -> None:
        self._title = title

    async def execute(self, **kwargs: Any) -> str:
        """Returns the titles, one per line."""
        if kwargs["catalogue_key"].reveal() != "public":
            raise PermissionError("wrong catalogue_key")
        return "\n".join([self._title, *sorted(title.title() for title in COPIES)])
