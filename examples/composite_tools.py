"""A composite tool: a trip is booked by several tools as one, and undone if a part of it fails.

python examples/composite_tools.py
"""

from __future__ import annotations

import asyncio
from typing import Any

from archon_mesh.tools import ToolExecutionEngine, ToolRegistry, tool
from archon_mesh.tools.composite import Argument, CompositeTool, Item, Result, When

CANCELLED: list[str] = []


@tool
def book_flight(destination: str, travellers: list[str]) -> dict[str, Any]:
    """Books a flight."""
    return {"booking": f"flight-{destination}", "price": 120 * len(travellers)}


@tool
def book_hotel(destination: str, rooms: int) -> dict[str, Any]:
    """Books rooms in a hotel."""
    if rooms > 2:
        raise LookupError(f"the hotels of {destination} are booked out")
    return {"booking": f"hotel-{destination}", "price": 90 * rooms}


@tool
def cancel(booking: str) -> str:
    """Cancels a booking."""
    CANCELLED.append(booking)
    return f"{booking} is cancelled"


@tool(idempotent=True)
def passport_of(name: str) -> str:
    """Returns the number of a traveller's passport."""
    return f"P-{name.upper()}"


@tool
def insure(price: int) -> str:
    """Insures an expensive trip."""
    return f"insured for {price}"


def trip() -> CompositeTool:
    """Passports are looked up two at a time; the flight and the hotel are booked at the same time."""
    composite = CompositeTool(
        "book_trip",
        "Books a flight and a hotel.",
        outputs={"flight": Result("flight", "booking"), "hotel": Result("hotel", "booking"), "cover": Result("cover")},
    )
    composite.add_node("passports", passport_of, {"name": Item()}, for_each=Argument("travellers"), parallel=2)
    composite.add_node(
        "flight",
        book_flight,
        {"destination": Argument("destination"), "travellers": Result("passports")},
        compensate_with=cancel,
        compensate_inputs={"booking": Result("flight", "booking")},
    )
    composite.add_node(
        "hotel",
        book_hotel,
        {"destination": Argument("destination"), "rooms": Argument("rooms", default=1)},
        on_error="retry",
        attempts=2,
        compensate_with=cancel,
        compensate_inputs={"booking": Result("hotel", "booking")},
    )
    composite.add_node("cover", insure, {"price": Result("flight", "price")})
    composite.add_edge("flight", "cover", when=When(Result("flight", "price"), ">", 200))
    composite.validate()
    return composite


async def no_pause(seconds: float) -> None:
    """Takes the place of the pauses between retries, to make the example quick."""


async def book() -> list[Any]:
    """The composite is called like any other tool."""
    engine = ToolExecutionEngine(ToolRegistry([trip()]))
    alone = await engine.execute_tool_call("book_trip", {"destination": "Porto", "travellers": ["ada"]})
    together = await engine.execute_tool_call("book_trip", {"destination": "Porto", "travellers": ["ada", "bob"]})
    return [alone.content, together.content]


async def undo() -> tuple[str, list[str]]:
    """No hotel has three rooms: the flight is cancelled."""
    composite = trip()
    engine = ToolExecutionEngine(ToolRegistry([composite]), sleep=no_pause)
    CANCELLED.clear()
    result = await engine.execute_tool_call("book_trip", {"destination": "Porto", "travellers": ["ada"], "rooms": 3})
    return result.error_message, CANCELLED


async def main() -> None:
    """Runs all examples."""
    print(trip().to_mermaid())  # noqa: T201
    for example in (book, undo):
        print(f"== {example.__name__}\n{await example()}")  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main())
