"""Scorers of trajectories: tools, roles, cost, tokens, time, people's ratings, and functions of the user."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator
from typing_extensions import override

from archon.answers import is_number
from archon_mesh.evals.expectation import Expectation, Question, Score
from archon_mesh.evals.trajectory import Trajectory

Order = Literal["exact", "in_order", "any_order"]

ScoreFunction = Callable[[Trajectory], bool | float | Score | Awaitable[bool | float | Score]]
"""A scorer of the user: whether a trajectory is good, how good it is from 0 to 1, or a whole score."""


class Tools(Expectation):
    """The tools in `names` are called: `in_order`, with others in between; `exact`ly these in this order; or in
    `any_order`. No tool of `without` is called. With a `role`, only its calls count."""

    NEEDS_ANSWER: ClassVar[bool] = False
    NEEDS_CALLS: ClassVar[bool] = True

    scorer: Literal["tools"] = "tools"
    names: list[str] = Field(default_factory=list)
    order: Order = "in_order"
    without: list[str] = Field(default_factory=list)
    role: str = ""

    @override
    async def check(self, question: Question) -> Score:
        calls = question.trajectory.tool_calls
        if calls is None:
            return self.fails("the tool calls of the run are not recorded (ARCHON_RECORDS of its agents)")
        called = [call.name for call in calls if not self.role or call.role == self.role]
        if unwanted := [name for name in self.without if name in called]:
            return self.fails(f"it called {', '.join(unwanted)}")
        wrong = _out_of_order(self.names, called, self.order)
        return self.fails(f"{wrong}; called: {', '.join(called) or 'none'}") if wrong else self.passes()


class Roles(Expectation):
    """The roles in `names` take part; with `only`, no others do."""

    NEEDS_ANSWER: ClassVar[bool] = False

    scorer: Literal["roles"] = "roles"
    names: list[str] = Field(min_length=1)
    only: bool = False

    @override
    async def check(self, question: Question) -> Score:
        took_part = question.trajectory.roles
        missing = [name for name in self.names if name not in took_part]
        others = [role for role in took_part if self.only and role not in self.names]
        if not missing and not others:
            return self.passes()
        reasons = [f"{name} did not take part" for name in missing] + [f"{role} took part" for role in others]
        return self.fails("; ".join(reasons))


class Cost(Expectation):
    """The run costs at most `max_usd` US dollars."""

    NEEDS_ANSWER: ClassVar[bool] = False

    scorer: Literal["cost"] = "cost"
    max_usd: float = Field(ge=0)

    @override
    async def check(self, question: Question) -> Score:
        cost = question.trajectory.cost_usd
        return (
            self.passes() if cost <= self.max_usd else self.fails(f"it cost ${cost:.6g}, at most ${self.max_usd:.6g}")
        )


class Tokens(Expectation):
    """The models of the run read and write at most `most` tokens."""

    NEEDS_ANSWER: ClassVar[bool] = False

    scorer: Literal["tokens"] = "tokens"
    most: int = Field(ge=0)

    @override
    async def check(self, question: Question) -> Score:
        tokens = question.trajectory.tokens
        return self.passes() if tokens <= self.most else self.fails(f"{tokens:,} tokens, at most {self.most:,}")


class Seconds(Expectation):
    """The run takes at most `most` seconds."""

    scorer: Literal["seconds"] = "seconds"
    most: float = Field(gt=0)

    @override
    async def check(self, question: Question) -> Score:
        seconds = question.trajectory.seconds
        return self.passes() if seconds <= self.most else self.fails(f"{seconds:.3g} s, at most {self.most:.3g} s")


class Rating(Expectation):
    """People rate the run with at least `least` of 5 stars on average. Before the first rating it is unknown: an eval
    that scores rated runs again counts it."""

    NEEDS_ANSWER: ClassVar[bool] = False

    scorer: Literal["rating"] = "rating"
    least: float = Field(default=4.0, ge=1, le=5)

    @override
    async def check(self, question: Question) -> Score:
        stars = question.trajectory.stars
        if stars is None:
            return self.unknown("the run has no rating yet")
        value = (stars - 1) / 4
        return self.passes(value) if stars >= self.least else self.fails(f"{stars:.3g} stars of 5", value)


class Python(Expectation):
    """A function of the user, `module:function`, scores the trajectory: it returns a bool, a Score, or a number
    from 0 to 1, which passes from `threshold` on; it may be async. The module is imported from the Python path."""

    NEEDS_ANSWER: ClassVar[bool] = False
    NEEDS_CALLS: ClassVar[bool] = True

    scorer: Literal["python"] = "python"
    function: str
    threshold: float = Field(default=0.5, ge=0, le=1)

    @field_validator("function")
    @classmethod
    def _is_reference(cls, function: str) -> str:
        module, colon, name = function.partition(":")
        if not colon or not name.isidentifier() or not all(map(str.isidentifier, module.split("."))):
            raise ValueError("has the form module:function")
        return function

    @property
    @override
    def label(self) -> str:
        return self.name or self.function

    @override
    async def check(self, question: Question) -> Score:
        try:
            result: Any = self.load()(question.trajectory)
            if inspect.isawaitable(result):
                result = await result
        except Exception as error:  # noqa: BLE001 - a scorer that fails is a failed expectation, not the end of the eval
            return self.fails(f"{self.function} raised {type(error).__name__}: {error}")
        return score_of(self, result, self.threshold)

    def load(self) -> ScoreFunction:
        """Imports the function. Raises ImportError, AttributeError, and TypeError if the name is not a function."""
        module, _, name = self.function.partition(":")
        function = getattr(import_module(module), name)
        if not inspect.isfunction(function):
            raise TypeError(f"{self.function} is not a function")
        return partial(function)


def score_of(expectation: Expectation, result: Any, threshold: float) -> Score:
    """Returns the score that the result of a user's function means."""
    if isinstance(result, Score):
        return Score(expectation.label, result.value, result.passed, result.reason, result.spent_usd)
    if isinstance(result, bool):
        return expectation.passes() if result else expectation.fails("the function returned False")
    if is_number(result) and 0 <= result <= 1:
        if result >= threshold:
            return expectation.passes(float(result))
        return expectation.fails(f"{result:.3g} of 1, at least {threshold:.3g} passes", float(result))
    return expectation.fails(f"the function returned {result!r}: expected a bool, a number from 0 to 1, or a Score")


def _out_of_order(names: Sequence[str], called: Sequence[str], order: Order) -> str:
    """Returns why the calls are not as expected; empty if they are."""
    if order == "exact":
        return "" if list(names) == list(called) else f"expected exactly {', '.join(names) or 'no tools'}"
    if missing := Counter(names) - Counter(called):
        return f"it did not call {', '.join(missing.elements())}"
    if order == "in_order":
        rest = iter(called)
        late = next((name for name in names if name not in rest), "")
        return f"{late} was not called after {_before(names, late)}" if late else ""
    return ""


def _before(names: Sequence[str], name: str) -> str:
    return ", ".join(names[: names.index(name)])
