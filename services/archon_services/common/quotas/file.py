"""The file of quotas.

    tenants:
      acme: {weight: 2, runs: 1000, runs_per_day: 50000, streams: 200, instances: 100, usd_per_day: 200}
      "*": {runs: 100}
    identities:
      ann: {tokens_per_day: 20000000}

`*` stands for every other tenant, or identity. A key that is absent is no bound.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pydantic
from pydantic import Field

from archon.principal import TENANT
from archon_mesh.declared.document import Document, Key
from archon_mesh.declared.mistakes import mistakes
from archon_mesh.declared.part import Part
from archon_services.common.quotas.quota import EVERY_OTHER, Quota, Quotas

MAX_LIMIT: Final = 10**15
"""The largest limit of a count, a petabyte or a million times a milliard."""

MAX_USD: Final = 10**9
MAX_NAME: Final = 256
"""Characters of an identity."""

MAX_ENTRIES: Final = 10_000
"""Tenants, and identities, in a file."""

_MICRO: Final = 1_000_000


class IdentityPart(Part):
    """The quotas of an identity in each tenant; a key that is absent is no bound."""

    runs: int | None = Field(default=None, strict=True, ge=0, le=MAX_LIMIT, description="runs under way on a replica")
    streams: int | None = Field(default=None, strict=True, ge=0, le=MAX_LIMIT, description="open streams on a replica")
    runs_per_day: int | None = Field(default=None, strict=True, ge=0, le=MAX_LIMIT, description="new runs")
    bytes_per_day: int | None = Field(default=None, strict=True, ge=0, le=MAX_LIMIT, description="bytes of the journal")
    tokens_per_day: int | None = Field(default=None, strict=True, ge=0, le=MAX_LIMIT, description="tokens of models")
    usd_per_day: float | None = Field(default=None, strict=True, ge=0, le=MAX_USD, description="cost in US dollars")

    def quota(self) -> Quota:
        """Returns the quotas of the part."""
        return Quota(
            runs=self.runs,
            streams=self.streams,
            runs_per_day=self.runs_per_day,
            bytes_per_day=self.bytes_per_day,
            tokens_per_day=self.tokens_per_day,
            micro_usd_per_day=None if self.usd_per_day is None else round(self.usd_per_day * _MICRO),
        )


class TenantPart(IdentityPart):
    """The quotas of a tenant, and its weight in the scheduler."""

    weight: float = Field(default=1.0, strict=True, ge=0.01, le=1_000, description="its share in the scheduler")
    instances: int | None = Field(default=None, strict=True, ge=0, le=MAX_LIMIT, description="registered instances")

    def quota(self) -> Quota:
        """Returns the quotas of the part."""
        own = IdentityPart.quota(self)
        return Quota(
            own.runs,
            own.streams,
            self.instances,
            own.runs_per_day,
            own.bytes_per_day,
            own.tokens_per_day,
            own.micro_usd_per_day,
            self.weight,
        )


class QuotasFile(Part):
    """The file of quotas, of tenants and of identities in each tenant."""

    tenants: dict[str, TenantPart] = Field(default_factory=dict, max_length=MAX_ENTRIES, description="by tenant")
    identities: dict[str, IdentityPart] = Field(default_factory=dict, max_length=MAX_ENTRIES, description="by identity")


_KEYS: Final = (*QuotasFile.model_fields, *TenantPart.model_fields)


def read_quotas(path: Path) -> Quotas:
    """Reads a file of quotas. Raises NotFound, and InvalidArgument with file, line and key."""
    document = Document(path, None)
    try:
        declared = QuotasFile.model_validate(document.value)
    except pydantic.ValidationError as error:
        raise document.errors(mistakes(document, error, _KEYS)) from None
    wrong: list[tuple[Key, str]] = [
        (("tenants", name), "is no name of a tenant: letters, digits and dashes, at most 63, or *")
        for name in declared.tenants
        if name != EVERY_OTHER and not TENANT.fullmatch(name)
    ]
    wrong += [
        (("identities", name), f"an identity has 1 to {MAX_NAME} characters")
        for name in declared.identities
        if not 1 <= len(name) <= MAX_NAME
    ]
    if wrong:
        raise document.errors(wrong)
    return Quotas(
        {name: part.quota() for name, part in declared.tenants.items()},
        {name: part.quota() for name, part in declared.identities.items()},
    )
