"""Arguments of the form NAME=NUMBER."""

from __future__ import annotations

from collections.abc import Iterable

from archon_services.cli.errors import USAGE, CliError


def read_pairs(values: Iterable[str], argument: str, example: str) -> dict[str, int]:
    """Returns the numbers by name. Raises CliError if a value is invalid or a name is there twice; `argument` is the
    name of the values in its message."""
    pairs: dict[str, int] = {}
    for value in values:
        name, equals, number = value.partition("=")
        if not equals or not name.strip() or not number.strip().isdecimal():
            raise CliError(f"invalid {argument} {value!r}: expected NAME=NUMBER, such as {example}", code=USAGE)
        if name.strip() in pairs:
            raise CliError(f"{argument} has {name.strip()} twice", code=USAGE)
        pairs[name.strip()] = int(number)
    return pairs
