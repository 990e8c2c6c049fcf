"""Finds the common properties of a log's failed requests, by counting."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

FIELDS: Final = ("host", "version", "region", "pay")
"""The fields whose values may be the cause."""

CANDIDATES: Final = tuple((field,) for field in FIELDS) + tuple(combinations(FIELDS, 2))
"""The fields, and pairs of fields, that are examined one after the other."""

MIN_REQUESTS: Final = 10
"""Requests that a value must have to be the cause."""

_PAIR: Final = re.compile(r'(\w+)=("[^"]*"|\S+)')


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the log: its time, as `14:06`, and its fields."""

    minute: str
    fields: Mapping[str, str]

    @property
    def is_request(self) -> bool:
        """Whether it is a request; others are events such as a deployment."""
        return "status" in self.fields

    @property
    def failed(self) -> bool:
        """Whether the request failed."""
        return self.fields.get("status", "").startswith("5")


def read_log(text: str) -> list[Line]:
    """Returns the lines that begin with a time."""
    found = []
    for line in text.splitlines():
        time, _, rest = line.partition(" ")
        if len(time) == 20 and time[10] == "T":
            found.append(Line(time[11:16], {key: value.strip('"') for key, value in _PAIR.findall(rest)}))
    return found


def overview(lines: Sequence[Line]) -> dict[str, Any]:
    """Returns how many requests there were and failed, the first and the last minute with more than two failures among
    ten requests in a row, and the events."""
    requests = [line for line in lines if line.is_request]
    window = [
        requests[index].minute
        for index in range(len(requests))
        if sum(line.failed for line in requests[index : index + 10]) > 2
    ]
    failed = [line for line in requests if line.failed]
    return {
        "requests": len(requests),
        "failed": len(failed),
        "began": window[0] if window else "",
        "ended": failed[-1].minute if failed else "",
        "lost": round(sum(float(line.fields["amount"]) for line in failed), 2),
        "events": [
            " ".join([line.minute, *(f"{key}={value}" for key, value in line.fields.items())])
            for line in lines
            if not line.is_request
        ],
    }


def examine(lines: Sequence[Line], fields: Sequence[str]) -> dict[str, Any]:
    """Returns the values of the fields that the failures have in common most, with their counts: requests with them and
    failures among these, and the same of all other requests."""
    requests = [line for line in lines if line.is_request]
    counts = Counter(_values(line, fields) for line in requests)
    failures = Counter(_values(line, fields) for line in requests if line.failed)
    best = max(_explained(counts, failures), key=lambda found: found["score"], default=None)
    return {"fields": list(fields), "values": [], "score": 0.0} if best is None else {"fields": list(fields), **best}


def _values(line: Line, fields: Sequence[str]) -> tuple[str, ...]:
    return tuple(line.fields.get(field, "") for field in fields)


def _explained(
    counts: Mapping[tuple[str, ...], int], failures: Mapping[tuple[str, ...], int]
) -> Iterator[dict[str, Any]]:
    total, failed = sum(counts.values()), sum(failures.values())
    for values, count in counts.items():
        if MIN_REQUESTS <= count < total and failed:
            hits = failures.get(values, 0)
            elsewhere = (failed - hits) / (total - count)
            yield {
                "values": list(values),
                "requests": count,
                "failed": hits,
                "others": total - count,
                "others_failed": failed - hits,
                "score": (hits / count - elsewhere) * hits / failed,
            }


def report(lines: Sequence[Line], seen: Mapping[str, Any], examined: Sequence[Mapping[str, Any]]) -> str:
    """Returns the report in plain text: the incident, the cause, the excluded causes, and the remedy."""
    best = max(examined, key=lambda found: found["score"])
    cause = " and ".join(f"{field} {value}" for field, value in zip(best["fields"], best["values"], strict=True))
    failed = [line for line in lines if line.failed]
    message, times = Counter(line.fields.get("error", "none") for line in failed).most_common(1)[0]
    change = next((event for event in seen["events"] if any(value in event for value in best["values"])), "none")
    others = [found for found in examined if len(found["fields"]) == 1 and found["fields"][0] not in best["fields"]]
    return "\n".join(
        [
            f"{seen['failed']} of {seen['requests']} orders failed, "
            f"worth {seen['lost']:,.2f}, from {seen['began']} on.",
            "",
            f"Cause    {cause}: {_of(best['failed'], best['requests'])} failed,",
            f"         of all others {_of(best['others_failed'], best['others'])}",
            f'Message  "{message}" in {times} of the {seen["failed"]}',
            f"Change   {change}",
            *(f"Not it   {_without(lines, best, found)}" for found in others),
            f"To do    undo that change; test {cause} before the next",
        ]
    )


def _without(lines: Sequence[Line], best: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """Says how a value does if the cause is not there."""
    [field], [value] = found["fields"], found["values"]
    left = [
        line
        for line in lines
        if line.is_request and line.fields.get(field) == value and list(_values(line, best["fields"])) != best["values"]
    ]
    return f"{field} {value}: without the cause {_of(sum(line.failed for line in left), len(left))}"


def _of(failed: int, requests: int) -> str:
    return f"{failed} of {requests} ({failed / requests:.0%})"
