"""Configuration of a service: flags before environment (`ARCHON_*`) before a YAML file before defaults.

The file is named by `--config` or `ARCHON_CONFIG` and has one section per service, beside `common` for all:

    common: {log_level: debug}
    registry: {port: 7101}
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import yaml
from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from archon.errors import FieldViolation, InvalidArgument


class ServiceSettings(BaseSettings):
    """What every service can be told. Subclasses add fields and name their section of the file."""

    model_config = SettingsConfigDict(env_prefix="ARCHON_", extra="forbid")
    section: ClassVar[str] = "common"

    host: str = Field(default="127.0.0.1", description="the address to listen on")
    port: int = Field(default=0, ge=0, le=65535, description="the port to listen on; 0 picks a free one")
    log_level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="what is logged")
    ready_file: Path | None = Field(default=None, description="a file that gets host:port once the service serves")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags come as arguments; the file comes last."""
        return (init_settings, _Environment(settings_cls), _FileSource(settings_cls))


S = TypeVar("S", bound=ServiceSettings)


class _Environment(EnvSettingsSource):
    """ARCHON_* but what Kubernetes injects for a Service named archon: ARCHON_PORT=tcp://..."""

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return {key: value for key, value in super()._load_env_vars().items() if not str(value).startswith("tcp://")}


class _FileSource(PydanticBaseSettingsSource):
    """The sections `common` and the service's own, the latter first."""

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        path = os.environ.get("ARCHON_CONFIG", "")
        if not path:
            return {}
        try:
            content = yaml.safe_load(Path(path).read_text()) or {}
        except (OSError, yaml.YAMLError) as error:
            raise InvalidArgument(f"the configuration file {path} can't be read: {error}") from error
        section = getattr(self.settings_cls, "section", "common")
        if not isinstance(content, dict) or not all(
            isinstance(content.get(s) or {}, dict) for s in ("common", section)
        ):
            raise InvalidArgument(f"the configuration file {path} must hold one section per service")
        known = self.settings_cls.model_fields
        common = {key: value for key, value in (content.get("common") or {}).items() if key in known}
        return {**common, **(content.get(section) or {})}


def load(cls: type[S], argv: Sequence[str]) -> S:
    """Reads the settings. Raises InvalidArgument that says which value is wrong, where it came from, and why."""
    parser = argparse.ArgumentParser(prog=f"archon_services.{cls.section}", description=cls.__doc__)
    parser.add_argument("--config", help="a YAML file with one section per service")
    for name, field in cls.model_fields.items():
        parser.add_argument(
            "--" + name.replace("_", "-"),
            dest=name,
            default=None,
            help=f"{field.description or ''} (ARCHON_{name.upper()})",
        )
    given = {key: value for key, value in vars(parser.parse_args(list(argv))).items() if value is not None}
    if config := given.pop("config", None):
        os.environ["ARCHON_CONFIG"] = config
    try:
        return cls(**given)
    except ValidationError as error:
        raise InvalidArgument(
            "; ".join(
                _explain(str(e["loc"][0]) if e["loc"] else "", e["msg"], e.get("input"), given) for e in error.errors()
            ),
            field_violations=[
                FieldViolation(".".join(str(part) for part in e["loc"]), e["msg"]) for e in error.errors()
            ],
        ) from error


def _explain(name: str, message: str, value: object, flags: dict[str, Any]) -> str:
    if name in flags:
        where = f"flag --{name.replace('_', '-')}"
    elif f"ARCHON_{name.upper()}" in os.environ:
        where = f"environment variable ARCHON_{name.upper()}"
    else:
        where = f"configuration file {os.environ.get('ARCHON_CONFIG', '')}: {name}"
    return f"{where} is {value!r}: {message}"


def load_or_exit(cls: type[S], argv: Sequence[str] | None = None) -> S:
    """As `load`, for the command line: a wrong value is one sentence on standard error and exit code 2."""
    try:
        return load(cls, sys.argv[1:] if argv is None else argv)
    except InvalidArgument as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - before there is a log
        sys.exit(2)
