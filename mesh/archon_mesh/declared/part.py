"""The base class of the parts of declared files."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """Base class of all parts of a file; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
