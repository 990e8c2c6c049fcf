"""The metadata of a run from options: a user, and pairs KEY=VALUE."""

from __future__ import annotations

from collections.abc import Iterable

from archon_services.cli.errors import USAGE, CliError


def metadata_of(user: str, pairs: Iterable[str]) -> dict[str, str]:
    """Returns the metadata. Raises CliError if a pair is invalid, or a key is there twice."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip():
            raise CliError(f"invalid metadata {pair!r}: expected KEY=VALUE, such as ticket=4711", code=USAGE)
        if key.strip() in found:
            raise CliError(f"--metadata has {key.strip()} twice", code=USAGE)
        found[key.strip()] = text
    if not user:
        return found
    from archon_mesh.memory.automatic.owner import USER_KEY

    if USER_KEY in found:
        raise CliError(f"--user and --metadata {USER_KEY}=... exclude each other", code=USAGE)
    return {**found, USER_KEY: user}
