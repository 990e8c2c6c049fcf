"""Credentials of tools: values that are never shown, from a source, or from a person who is asked for them."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, NoReturn, Self

from typing_extensions import override

from archon_mesh.core.masking import forms_of
from archon_mesh.tools.errors import MissingCredentials

_log = logging.getLogger(__name__)

ASK_SECONDS: Final = 600.0
"""How long a person has to answer."""

MIN_REDACTED: Final = 4
"""Characters of a secret from which on it is replaced in texts. A shorter one would hide nothing."""

REDACTED: Final = "***"


class Secret:
    """A text that is shown as `***` everywhere: in logs, formats, JSON and tracebacks. `reveal` returns it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Returns the text."""
        return self._value

    def __repr__(self) -> str:
        return REDACTED

    @override
    def __format__(self, spec: str) -> str:
        return REDACTED

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: object) -> Self:
        return self

    @override
    def __reduce_ex__(self, _: object) -> NoReturn:
        raise TypeError("a Secret cannot be pickled")


Source = Mapping[str, Secret | str] | Callable[[str], Secret | str | None]
"""Credentials by name, or a function that returns one by its name, or None."""

Ask = Callable[[str, str], Awaitable[Secret | str | None]]
"""Asks a person, with the names of the tool and of the credential. Returns None if there is no answer."""


class Credentials:
    """The credentials of an engine."""

    def __init__(self, source: Source | None = None, ask: Ask | None = None) -> None:
        self._source = source
        self._ask = ask
        self._answers: dict[str, Secret] = {}
        self._asking = asyncio.Lock()

    def asking(self, ask: Ask) -> Credentials:
        """Returns credentials from the same source that ask by `ask`, and know no answers yet."""
        return Credentials(self._source, ask)

    async def of(self, tool_name: str, names: Iterable[str]) -> dict[str, Secret]:
        """Returns the credentials of a tool by name. Raises MissingCredentials, which names the first missing one."""
        return {name: self._find(name) or await self._asked(tool_name, name) for name in names}

    def _find(self, name: str) -> Secret | None:
        try:
            found = self._source(name) if callable(self._source) else (self._source or {}).get(name)
        except Exception as error:  # noqa: BLE001 - a user's function may raise anything, and quote the value
            _log.warning("the source of credentials failed for %s: %s", name, type(error).__name__)
            found = None
        secret = _as_secret(found)
        return secret if secret is not None else self._answers.get(name)

    async def _asked(self, tool_name: str, name: str) -> Secret:
        if self._ask is None:
            raise MissingCredentials(name, tool_name)
        async with self._asking:  # concurrent calls that need the same credential ask once
            secret = self._find(name)
            if secret is None:
                try:
                    async with asyncio.timeout(ASK_SECONDS):
                        answer = await self._ask(tool_name, name)
                except TimeoutError:
                    answer = None
                except Exception as error:  # noqa: BLE001 - a user's function may raise anything, and quote the value
                    _log.warning("asking for the credential %s failed: %s", name, type(error).__name__)
                    answer = None
                secret = _as_secret(answer)
                if secret is not None:
                    self._answers[name] = secret
                else:
                    secret = self._find(name)  # the person may have added it to the source
            if secret is None:
                raise MissingCredentials(name, tool_name)
            return secret


def redacted(value: Any, secrets: Iterable[Secret]) -> Any:
    """Returns a text or JSON value in which the secrets are replaced by `***`, in keys too, also where they are encoded
    for a URL or in base64."""
    texts = [text for secret in secrets if len(text := secret.reveal()) >= MIN_REDACTED]
    return _redacted(value, sorted((form for text in texts for form in forms_of(text)), key=len, reverse=True))


def _redacted(value: Any, texts: list[str]) -> Any:
    if isinstance(value, str):
        for text in texts:
            value = value.replace(text, REDACTED)
        return value
    if isinstance(value, Mapping):
        return {_redacted(key, texts): _redacted(item, texts) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_redacted(item, texts) for item in value]
    return value


def _as_secret(value: Secret | str | None) -> Secret | None:
    if value is None or isinstance(value, Secret):
        return value
    return Secret(value) if value else None
