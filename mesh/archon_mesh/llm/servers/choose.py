"""Chooses the profile of a server by its URL, the model's name, and the user's choice."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import ValidationError

from archon.errors import InvalidArgument
from archon_mesh.llm.media.profile import MediaProfile
from archon_mesh.llm.servers.profile import ServerProfile

TABLE: Final = Path(__file__).with_name("families.yaml")

FAMILY: Final = "family"
OPENAI: Final = "openai"
OTHER: Final = "other"
"""The family of a server that is known by its address only."""


def families() -> tuple[str, ...]:
    """Returns the names of the known families."""
    return tuple(_table()["families"])


def find_profile(base_url: str | None, model: str, chosen: str | Mapping[str, Any] | None = None) -> ServerProfile:
    """Returns the profile of the server at a URL (None: OpenAI).

    `chosen` is the name of a family, or a mapping with any keys of ServerProfile, `family` among them; omitted keys
    follow from URL and model. Raises InvalidArgument for a family or a key that is not known.
    """
    table = _table()
    given: dict[str, Any] = {FAMILY: chosen} if isinstance(chosen, str) else dict(chosen or {})
    family = given.pop(FAMILY, None) or _family_at(base_url)
    if family != OTHER and (not isinstance(family, str) or family not in table["families"]):
        raise InvalidArgument(f"unknown family of servers {family!r}: use {', '.join(families())}")
    values = {**table["default"], **table["families"].get(family, {})}
    for pattern, of_model in table["models"].items():
        if re.search(pattern, model, re.IGNORECASE):
            values |= of_model
    values = {key: value for key, value in values.items() if key not in ("hosts", "ports")}
    try:
        return ServerProfile(family=family, **{**values, **given})
    except ValidationError as error:
        raise InvalidArgument(f"invalid profile of a server: {_first(error)}") from None


def with_media(chosen: str | Mapping[str, Any] | None, media: str) -> str | Mapping[str, Any] | None:
    """Returns the choice with `media`, entries separated by commas, unless it has its own; unchanged if `media` is
    empty."""
    entries = [entry.strip() for entry in media.split(",") if entry.strip()]
    if not entries:
        return chosen
    return {"media": entries, **({FAMILY: chosen} if isinstance(chosen, str) else chosen or {})}


def find_media(chosen: Mapping[str, Any] | None, known: MediaProfile) -> MediaProfile:
    """Returns the files that a model of another API takes: the `known` profile with the `chosen` keys. Raises
    InvalidArgument for a key that is not known."""
    try:
        return MediaProfile(**{**known.model_dump(), **(chosen or {})})
    except ValidationError as error:
        raise InvalidArgument(f"invalid profile of a server: {_first(error, MediaProfile)}") from None


def _family_at(base_url: str | None) -> str:
    if base_url is None:
        return OPENAI
    try:
        parts = urlsplit(base_url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return OTHER  # the client reports the URL
    for name, family in _table()["families"].items():
        if any(host == known or host.endswith((f".{known}", f"-{known}")) for known in family.get("hosts", ())):
            return str(name)
    known_ports = {port: str(name) for name, family in _table()["families"].items() for port in family.get("ports", ())}
    return known_ports.get(port, OTHER)


def _first(error: ValidationError, profile: type[MediaProfile] = ServerProfile) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        fields = sorted(profile.model_fields.items(), key=lambda item: item[0] in MediaProfile.model_fields)
        names = (field.alias or name for name, field in fields)
        return f"unknown key {key!r}; the keys are {', '.join(names)}"
    return f"{key}: {first['msg']}"


@lru_cache(maxsize=1)
def _table() -> Mapping[str, Any]:
    import yaml

    table: Mapping[str, Any] = yaml.safe_load(TABLE.read_bytes())
    return table
