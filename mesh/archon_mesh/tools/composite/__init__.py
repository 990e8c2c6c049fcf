"""Tools that are composed of other tools: a graph whose nodes are calls, declared and checked before it runs."""

from archon_mesh.tools.composite.composite import CompositeTool
from archon_mesh.tools.composite.errors import (
    CompositeCycle,
    CompositeError,
    CompositeTooDeep,
    TypeMismatch,
    UnknownInput,
    UnknownNode,
    UnmappedInput,
)
from archon_mesh.tools.composite.values import Argument, Item, Result, When

__all__ = [
    "Argument",
    "CompositeCycle",
    "CompositeError",
    "CompositeTooDeep",
    "CompositeTool",
    "Item",
    "Result",
    "TypeMismatch",
    "UnknownInput",
    "UnknownNode",
    "UnmappedInput",
    "When",
]
