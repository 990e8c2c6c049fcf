"""Views of messages."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, NoReturn, Self, TypeVar

from google.protobuf.message import Message
from typing_extensions import override

M = TypeVar("M", bound=Message)


class MessageView(Generic[M]):
    """A plain value whose properties are read from a message when they are asked for, and which costs nothing before.

    It cannot be changed; its message should not be. Views of equal messages are equal.
    """

    __slots__ = ("proto",)

    proto: M
    """The message."""

    _SHOWN: ClassVar[tuple[str, ...]] = ()
    """The properties that `repr` shows."""

    def __init__(self, proto: M) -> None:
        object.__setattr__(self, "proto", proto)

    @classmethod
    def from_proto(cls, message: M) -> Self:
        """Returns the view of a message."""
        return cls(message)

    @override
    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} cannot be changed: {name}")

    @override
    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, MessageView) and bool(other.proto == self.proto)

    __hash__ = None  # type: ignore[assignment]  # a message has none

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.proto,)

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self._SHOWN)})"
