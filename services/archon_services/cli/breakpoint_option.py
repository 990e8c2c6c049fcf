"""The breakpoints of the option `--break-before`."""

from __future__ import annotations

from collections.abc import Sequence

from archon_services.cli.errors import USAGE, CliError


def read_breakpoints(texts: Sequence[str] | None) -> tuple[str, ...]:
    """Returns the breakpoints of the option. Raises CliError for any other text."""
    from archon.breakpoint_text import read_breakpoint
    from archon.errors import InvalidArgument

    try:
        for text in texts or ():
            read_breakpoint(text)
    except InvalidArgument as error:
        raise CliError(f"--break-before: {error.message}", code=USAGE) from None
    return tuple(texts or ())
