"""The tree at the head of `archon.errors` is the tree of its classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from archon import errors
from archon.errors import ArchonError

CODE: Final = 34
"""The column of the codes."""


def lines(of: type[ArchonError], indent: str = "  ") -> Iterator[str]:
    """Yields a line for each class below `of`, in the order of the file: its name, below the root its gRPC code, and
    the built-in class that it is, too."""
    classes = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, ArchonError)]
    below = [each for each in classes if of in each.__bases__]
    for each in below:
        built_in = [base.__name__ for base in each.__bases__ if base.__module__ == "builtins"]
        line = f"{indent}+ {each.__name__}"
        line = f"{line:<{CODE}}{each.code if of is ArchonError else '':<22}" + (f"({built_in[0]})" if built_in else "")
        yield line.rstrip()
        yield from lines(each, indent + ("    " if each is below[-1] else "|   "))


def test_the_tree_in_the_docstring_has_each_class() -> None:
    drawn = (errors.__doc__ or "").split("\n\n")[1].splitlines()
    expected = ["ArchonError", *lines(ArchonError)]
    assert drawn == expected, "\n".join(["the tree is", *expected])
