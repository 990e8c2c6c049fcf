"""Expectations of a case, and the scores that they give.

An expectation is also a JSON object of a data set: its `scorer`, and the keys of the class for it, such as
`{"scorer": "contains", "texts": ["checkout"]}`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, field_validator

from archon_mesh.evals.trajectory import Trajectory
from archon_mesh.llm import ModelClient


@dataclass(frozen=True, slots=True)
class Score:
    """How a trajectory meets one expectation: `value` from 0 to 1, whether it `passed`, and why not. Both are None if
    it cannot be told yet, as before the first rating. `spent_usd` is the cost of scoring, in US dollars."""

    name: str
    value: float | None
    passed: bool | None
    reason: str = ""
    spent_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class Question:
    """A trajectory to score: the goal as text, the recorded answer of the case if there is one, and the model that
    judges if the expectation names none."""

    goal: str
    trajectory: Trajectory
    recorded: str | None = None
    judge: ModelClient | None = None


class Expectation(BaseModel, ABC):
    """An expectation. `name` labels its scores in reports, by default the scorer."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    NEEDS_ANSWER: ClassVar[bool] = True
    """Whether a run that has not completed fails it without a look at the trajectory."""

    NEEDS_CALLS: ClassVar[bool] = False
    """Whether it reads the tool calls, which have to be fetched."""

    scorer: str
    name: str = Field(default="", max_length=200)

    @field_validator("name")
    @classmethod
    def _is_free(cls, name: str) -> str:
        if name == "passed" or name.startswith("run."):
            raise ValueError(f"cannot be {name!r}, which is a metric of every eval")
        return name

    @property
    def label(self) -> str:
        """The name of its scores."""
        return self.name or self.scorer

    async def score(self, question: Question) -> Score:
        """Returns the score of a trajectory. A run that has not completed has no answer to score."""
        if self.NEEDS_ANSWER and not question.trajectory.completed:
            return self.fails(f"the run ended {question.trajectory.state}")
        return await self.check(question)

    @abstractmethod
    async def check(self, question: Question) -> Score:
        """Returns the score of a trajectory with an answer, if the scorer needs one."""

    def passes(self, value: float = 1.0, *, spent: float = 0.0) -> Score:
        """Returns the score of a trajectory that meets the expectation."""
        return Score(self.label, value, True, "", spent)

    def fails(self, reason: str, value: float = 0.0, *, spent: float = 0.0) -> Score:
        """Returns the score of a trajectory that does not meet it."""
        return Score(self.label, value, False, reason, spent)

    def unknown(self, reason: str) -> Score:
        """Returns the score of a trajectory that cannot be scored yet."""
        return Score(self.label, None, None, reason)

    def document(self) -> dict[str, Any]:
        """Returns the JSON form, without keys that have their defaults."""
        return {"scorer": self.scorer, **self.model_dump(mode="json", exclude_defaults=True)}
