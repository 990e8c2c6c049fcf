"""`/rate up|down [WHY]` in a chat: a rating of the last answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from archon_services.cli.errors import USAGE, CliError

COMMAND: Final = "/rate"
STARS: Final = {"up": 5, "down": 1}
"""The stars of a thumb: the best and the worst rating."""

FORM: Final = f"{COMMAND} up|down [WHY]"


@dataclass(frozen=True, slots=True)
class ChatRating:
    """A thumb, `up` or `down`, and the reason for it, which may be empty."""

    thumb: str
    comment: str = ""

    @property
    def stars(self) -> int:
        """The stars of the thumb, from 1 to 5."""
        return STARS[self.thumb]


def read_rating(line: str) -> ChatRating | None:
    """Returns the rating in a line of a chat, None for a message. Raises CliError if the line begins with /rate and has
    another form."""
    command, _, rest = line.strip().partition(" ")
    if command != COMMAND:
        return None
    thumb, _, comment = rest.strip().partition(" ")
    if thumb not in STARS:
        raise CliError(f"a rating is {FORM}", code=USAGE)
    return ChatRating(thumb, comment.strip())
