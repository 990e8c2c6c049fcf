"""Cases of a data set: a goal, the roles or the strategy for it, and expectations."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, ValidationError, field_validator, model_validator

from archon.errors import FieldViolation, InvalidArgument
from archon.submission import Goal
from archon.types import Part
from archon_mesh.evals.answer_scorers import Contains, Exact, Judge, Regex, Schema
from archon_mesh.evals.expectation import Expectation
from archon_mesh.evals.trajectory_scorers import Cost, Python, Rating, Roles, Seconds, Tokens, Tools

TIMEOUT: Final = 600.0
"""Seconds that a run of a case may take, by default."""

MAX_LINE: Final = 16 * 1024 * 1024
MAX_CASES: Final = 100_000
"""Bytes of a case, and cases of a data set."""

Scorer = Annotated[
    Exact | Contains | Regex | Schema | Judge | Tools | Roles | Cost | Tokens | Seconds | Rating | Python,
    Field(discriminator="scorer"),
]


class PartDocument(BaseModel):
    """A part of a goal: one of `text`, `data_json`, `url` and `raw` (base64)."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    text: str | None = None
    data_json: str | None = None
    url: str | None = None
    raw: str | None = None
    filename: str = ""
    media_type: str = ""

    @model_validator(mode="after")
    def _is_part(self) -> PartDocument:
        self.part()
        return self

    def part(self) -> Part:
        """Returns the part. Raises ValueError if the document is not a part."""
        try:
            raw = None if self.raw is None else base64.b64decode(self.raw, validate=True)
        except binascii.Error as error:
            raise ValueError(f"`raw` is not base64: {error}") from None
        return Part(self.text, raw, self.url, self.data_json, self.filename, self.media_type)


class Case(BaseModel):
    """A case: `goal` goes to `roles` with a `strategy` (both as `Client.submit` takes them), and the answer and its
    trajectory are scored by the expectations in `expect`.

    The case passes if at least the part `threshold` of its runs meets all expectations. `answer` is the recorded one,
    and `origin` the run that the case was made from, if it was made from one. `answers` are replies to questions that
    the run asks people, in order; for an approval `approve` or `reject`. Without one that is left, the run is
    cancelled. `tags` group cases.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    id: str = Field(min_length=1, max_length=200)
    goal: str | list[PartDocument]
    roles: list[str] = Field(default_factory=list)
    strategy: Literal["", "pipeline", "agent", "plan"] = ""
    planner: str = ""
    expect: list[SerializeAsAny[Scorer]] = Field(min_length=1)
    threshold: float = Field(default=1.0, ge=0, le=1)
    timeout: float = Field(default=TIMEOUT, gt=0, le=7 * 86_400)
    answers: list[str] = Field(default_factory=list)
    tags: list[str] = Field(default_factory=list)
    answer: str | None = None
    origin: str = ""

    @field_validator("goal")
    @classmethod
    def _has_goal(cls, goal: str | list[PartDocument]) -> str | list[PartDocument]:
        if not (goal.strip() if isinstance(goal, str) else goal):
            raise ValueError("is empty")
        return goal

    @property
    def expectations(self) -> Sequence[Expectation]:
        """The conditions that the answer of the case must meet, in the order of the file."""
        return self.expect

    def submission(self) -> Goal:
        """Returns the goal as `Client.submit` takes it."""
        return self.goal if isinstance(self.goal, str) else [document.part() for document in self.goal]

    def goal_text(self) -> str:
        """Returns the goal as one text: its parts, files as their URL or name, joined by empty lines."""
        if isinstance(self.goal, str):
            return self.goal
        return "\n\n".join(part.text or part.data_json or part.url or part.filename for part in self.goal)

    def document(self) -> dict[str, Any]:
        """Returns the JSON form, without keys that have their defaults."""
        document = self.model_dump(mode="json", exclude_defaults=True)
        return document | {"expect": [expectation.document() for expectation in self.expectations]}

    def line(self) -> str:
        """Returns the case as a line of a data set."""
        return json.dumps(self.document(), ensure_ascii=False)


def part_document(part: Part) -> PartDocument:
    """Returns the JSON form of a part of a goal, without its metadata."""
    return PartDocument(
        text=part.text,
        data_json=part.data_json,
        url=part.url,
        raw=None if part.raw is None else base64.b64encode(part.raw).decode(),
        filename=part.filename,
        media_type=part.media_type,
    )


def goal_document(parts: Sequence[Part]) -> str | list[PartDocument]:
    """Returns the goal of a run as a case has it: the text, if it is nothing else."""
    if len(parts) == 1 and parts[0].text is not None and not (parts[0].filename or parts[0].media_type):
        return parts[0].text
    return [part_document(part) for part in parts]


def case_of(document: Mapping[str, Any], where: str = "the case") -> Case:
    """Returns the case that a JSON object is. Raises InvalidArgument, which names `where` and each wrong key."""
    try:
        return Case.model_validate(document)
    except ValidationError as error:
        violations = [
            FieldViolation(".".join(map(str, each["loc"])) or "(all)", each["msg"].replace("Value error, ", ""))
            for each in error.errors(include_url=False, include_context=False, include_input=False)
        ]
        said = "; ".join(f"{each.field}: {each.description}" for each in violations[:5])
        raise InvalidArgument(f"{where} is invalid: {said}", field_violations=violations) from None


def parse_cases(text: str, where: str = "the data set") -> list[Case]:
    """Returns the cases of a data set in JSON Lines; empty lines and lines that begin with # are left out.

    Raises InvalidArgument, which names the line, for a line that is no case, an id that is there twice, and a data set
    without cases.
    """
    cases: list[Case] = []
    lines: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        place = f"{where}, line {number}"
        if len(line) > MAX_LINE or len(cases) >= MAX_CASES:
            raise InvalidArgument(f"{place}: at most {MAX_CASES:,} cases of {MAX_LINE:,} characters are read")
        try:
            document = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InvalidArgument(f"{place} is not JSON: {error}") from None
        if not isinstance(document, dict):
            raise InvalidArgument(f"{place} is not a JSON object")
        case = case_of(document, place)
        if case.id in lines:
            raise InvalidArgument(f"{place}: the id {case.id!r} is there already, in line {lines[case.id]}")
        lines[case.id] = number
        cases.append(case)
    if not cases:
        raise InvalidArgument(f"{where} has no cases")
    return cases


def to_lines(cases: Iterable[Case]) -> str:
    """Returns the data set with these cases."""
    return "".join(case.line() + "\n" for case in cases)
