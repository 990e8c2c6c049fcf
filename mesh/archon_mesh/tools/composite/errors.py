"""Errors of a composite tool's declaration, part of the error tree of `archon.errors`."""

from __future__ import annotations

from archon.errors import GraphCycle, InvalidArgument


class CompositeError(InvalidArgument):
    """The declaration of a composite tool is invalid."""


class UnknownNode(CompositeError):
    """An edge, an input or an output names a node that does not exist."""


class UnknownInput(CompositeError):
    """An input is mapped to a parameter that the tool does not have."""


class UnmappedInput(CompositeError):
    """A required parameter of a node's tool is not mapped."""


class TypeMismatch(CompositeError):
    """A value is mapped to a parameter whose type it can never have."""


class CompositeTooDeep(CompositeError):
    """Composite tools are nested too deep, or a composite has too many nodes."""


class CompositeCycle(GraphCycle):
    """The nodes depend on each other in a circle, or a composite tool contains itself; `metadata["cycle"]` is the path,
    `a -> b -> a`."""

    def __init__(self, path: list[str]) -> None:
        cycle = " -> ".join(path)
        super().__init__(f"the nodes form a cycle: {cycle}", metadata={"cycle": cycle})
