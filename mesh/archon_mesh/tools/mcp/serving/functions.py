"""Functions behind prompts and resources: described by their signature, called within a time limit."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from archon.errors import DeadlineExceeded, InvalidArgument, ResourceExhausted
from archon.threads import on_thread
from archon_mesh.tools.function import MAX_THREADS
from archon_mesh.tools.signature import Signature

CALL_SECONDS: Final = 30.0
"""Seconds of a call, unless its author sets another limit."""

MAX_COMPLETIONS: Final = 100
"""Values that complete an argument; the protocol allows no more."""

Complete = Sequence[str] | Callable[[str], Iterable[str]]
"""Values of an argument, which are offered if they begin with the typed text, or a function of the typed text."""


class OfferedFunction:
    """A function, sync or async, whose arguments a client passes as texts. A plain function runs on a thread."""

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        description: str,
        seconds: float,
        complete: Mapping[str, Complete] | None,
    ) -> None:
        """Raises InvalidArgument if there is no name, a parameter cannot be described by a schema, or an argument to
        complete is not a parameter."""
        self._function = function
        self.name = name or getattr(function, "__name__", "")
        if not self.name:
            raise InvalidArgument(f"{function!r} has no name")
        self.description = description or inspect.cleandoc(function.__doc__ or "")
        self._seconds = seconds
        self._threads = 0
        self._signature = Signature(function, self.name, ())
        self._complete = dict(complete or {})
        if unknown := sorted(self._complete.keys() - self.parameters.keys()):
            raise InvalidArgument(f"{self.name}: {unknown[0]!r} is not a parameter of the function")

    @property
    def parameters(self) -> Mapping[str, Mapping[str, Any]]:
        """The JSON Schemas of the parameters by their names."""
        properties: Mapping[str, Mapping[str, Any]] = self._signature.schema["properties"]
        return properties

    @property
    def required(self) -> Sequence[str]:
        """The names of the parameters without a default."""
        required: Sequence[str] = self._signature.schema.get("required", ())
        return required

    async def call(self, arguments: Mapping[str, Any]) -> Any:
        """Returns the function's result. Raises InvalidArgument for arguments that do not match the signature,
        DeadlineExceeded, ResourceExhausted if too many earlier calls have not ended, and the function's errors."""
        kwargs = self._signature.convert(arguments)
        value: Any
        if inspect.iscoroutinefunction(self._function):
            value = self._function(**kwargs)
        else:
            value = await self._on_thread(functools.partial(self._function, **kwargs))
        if not inspect.isawaitable(value):
            return value
        timeout = asyncio.timeout(self._seconds)
        try:
            async with timeout:
                return await value
        except TimeoutError:
            if not timeout.expired():
                raise
            raise self._late() from None

    async def completed(self, argument: str, typed: str) -> list[str]:
        """Returns up to MAX_COMPLETIONS + 1 values that begin with the typed text. An argument with a choice in its
        type is completed by it."""
        source = self._complete.get(argument)
        if source is None:
            source = [str(value) for value in self.parameters.get(argument, {}).get("enum", ())]
        if callable(source):
            values: list[str] = await self._on_thread(functools.partial(_listed, source, typed))
            return values
        return [value for value in source if value.startswith(typed)][: MAX_COMPLETIONS + 1]

    async def _on_thread(self, function: Callable[[], object]) -> Any:
        """Returns the result of a plain function. The thread of one that is late goes on until it returns. Raises
        ResourceExhausted if MAX_THREADS go on."""
        if self._threads >= MAX_THREADS:
            raise ResourceExhausted(f"{self.name} has {MAX_THREADS} threads that have not ended")
        self._threads += 1
        ending = on_thread(function, f"mcp-{self.name}")
        ending.add_done_callback(self._ended)
        done, _ = await asyncio.wait({ending}, timeout=self._seconds)
        if not done:
            raise self._late()
        value, error = ending.result()
        if error is not None:
            raise error
        return value

    def _ended(self, _: object) -> None:
        self._threads -= 1

    def _late(self) -> DeadlineExceeded:
        return DeadlineExceeded(f"{self.name}: no answer within {self._seconds:g} s")


def _listed(function: Callable[[str], Iterable[str]], typed: str) -> list[str]:
    return [value for _, value in zip(range(MAX_COMPLETIONS + 1), function(typed), strict=False)]
