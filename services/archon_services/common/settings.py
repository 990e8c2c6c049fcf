"""Settings of a service. Flags take precedence over the environment (`ARCHON_*`), that over a YAML file, that over
defaults.

`--config` or `ARCHON_CONFIG` names the file. It has one section per service, and `common` for all:

    common: {log_level: debug}
    registry: {port: 7101}
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, TypeVar

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from archon.errors import FieldViolation, InvalidArgument
from archon.process_input import clean_environment, open_standard_streams
from archon.wire import MAX_SECONDS
from archon_mesh.plain_yaml import plain_yaml

MAX_FILE: Final = 1024 * 1024
"""Bytes of the file."""


def in_home(file: str) -> str:
    """Returns the path of a file in ARCHON_HOME, or else in `.archon` in the current directory."""
    return str(Path(os.environ.get("ARCHON_HOME") or ".archon") / file)


class ServiceSettings(BaseSettings):
    """Settings that every service has. Subclasses add fields and name their section of the file."""

    model_config = SettingsConfigDict(env_prefix="ARCHON_", extra="forbid")
    section: ClassVar[str] = "common"

    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(default=0, ge=0, le=65535, description="port to listen on; 0 picks a free port")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="lowest level that is logged"
    )
    log_format: Literal["auto", "json", "text"] = Field(
        default="auto", description="form of log lines; auto: text on a terminal, else JSON"
    )
    ready_file: Path | None = Field(
        default=None,
        description="file to write host:port to when the service is ready; removed when it has stopped serving",
    )

    @property
    def serves(self) -> str:
        """How the service is reached, as the log says it: this, and the address."""
        return "serving on"

    @field_validator("*")
    @classmethod
    def _check_number(cls, value: Any) -> Any:
        """No time in seconds is larger; protobuf and event loops take no infinity."""
        if isinstance(value, float) and not -MAX_SECONDS <= value <= MAX_SECONDS:  # NaN is in no range
            raise ValueError(f"must be at most {MAX_SECONDS:,.0f}")
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Orders the sources by precedence: flags (passed as arguments), environment, file."""
        return (init_settings, _Environment(settings_cls), _FileSource(settings_cls))


S = TypeVar("S", bound=ServiceSettings)


class _Environment(EnvSettingsSource):
    """ARCHON_* variables, except those that Kubernetes injects for a Service named archon (ARCHON_PORT=tcp://...)."""

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return {key: value for key, value in super()._load_env_vars().items() if not str(value).startswith("tcp://")}


class _FileSource(PydanticBaseSettingsSource):
    """The service's own section of the file, which takes precedence over `common`."""

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        path = os.environ.get("ARCHON_CONFIG", "")
        if not path:
            return {}
        try:
            with Path(path).open("rb") as file:
                text = file.read(MAX_FILE + 1)
            content = plain_yaml(text) or {}
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise InvalidArgument(f"cannot read the configuration file {path}: {reason}") from None
        if len(text) > MAX_FILE:
            raise InvalidArgument(f"the configuration file {path} is larger than {MAX_FILE:,} bytes")
        section = getattr(self.settings_cls, "section", "common")
        if not isinstance(content, dict) or not all(
            isinstance(content.get(name) or {}, dict) for name in ("common", section)
        ):
            raise InvalidArgument(f"the configuration file {path} must hold one section per service")
        fields = self.settings_cls.model_fields
        common = {key: value for key, value in (content.get("common") or {}).items() if key in fields}
        return {**common, **(content.get(section) or {})}


def load(cls: type[S], argv: Sequence[str]) -> S:
    """Reads the settings. Raises InvalidArgument, which names each invalid value, its source and the reason."""
    parser = argparse.ArgumentParser(prog=f"archon_services.{cls.section}", description=cls.__doc__)
    parser.add_argument("--config", help="YAML file with one section per service")
    for name, field in cls.model_fields.items():
        parser.add_argument(
            "--" + name.replace("_", "-"),
            dest=name,
            default=None,
            help=f"{field.description or ''} (ARCHON_{name.upper()})",
        )
    flags = {key: value for key, value in vars(parser.parse_args(list(argv))).items() if value is not None}
    if config := flags.pop("config", None):
        os.environ["ARCHON_CONFIG"] = config
    try:
        return cls(**flags)
    except ValidationError as error:
        raise InvalidArgument(
            "; ".join(
                _describe(str(detail["loc"][0]) if detail["loc"] else "", detail["msg"], detail.get("input"), flags)
                for detail in error.errors()
            ),
            field_violations=[
                FieldViolation(".".join(str(part) for part in detail["loc"]), detail["msg"])
                for detail in error.errors()
            ],
        ) from error


def _describe(name: str, message: str, value: object, flags: dict[str, Any]) -> str:
    if name in flags:
        source = f"flag --{name.replace('_', '-')}"
    elif f"ARCHON_{name.upper()}" in os.environ:
        source = f"environment variable ARCHON_{name.upper()}"
    else:
        source = f"configuration file {os.environ.get('ARCHON_CONFIG', '')}: {name}"
    return f"{source} is {value!r}: {message}"


def load_or_exit(cls: type[S], argv: Sequence[str] | None = None) -> S:
    """Reads the settings for the command line: prints an invalid value to standard error and exits with code 2."""
    open_standard_streams()
    clean_environment()
    try:
        return load(cls, sys.argv[1:] if argv is None else argv)
    except InvalidArgument as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - logging is not set up yet
        sys.exit(2)
