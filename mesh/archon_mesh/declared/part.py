"""The base class of the parts of declared files."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator

from archon.wire import MAX_SECONDS


class Part(BaseModel):
    """Base class of all parts of a file; unknown keys are errors, and so are numbers that are not finite, and times
    above MAX_SECONDS."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    @field_validator("*", mode="before")
    @classmethod
    def _check_number(cls, value: Any) -> Any:
        if isinstance(value, float) and not -MAX_SECONDS <= value <= MAX_SECONDS:  # NaN is in no range
            raise ValueError(f"must be at most {MAX_SECONDS:,.0f}")
        return value
