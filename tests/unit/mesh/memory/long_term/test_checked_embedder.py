"""An embedder that raises what it likes, or returns what are no embeddings."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from archon.errors import InvalidArgument, Unavailable
from archon.failure_kinds import EMBEDDING
from archon_mesh.memory.long_term import OfflineEmbedder
from archon_mesh.memory.long_term.embedders.checked import CheckedEmbedder
from archon_mesh.memory.long_term.port import Vector


class Panic(BaseException):
    """As extensions in Rust raise it."""


class Odd(OfflineEmbedder):
    """Raises or returns what it was given."""

    def __init__(self, given: Any) -> None:
        self.given = given

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        if isinstance(self.given, BaseException):
            raise self.given
        return self.given  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "raised", [RuntimeError("out of memory"), KeyError("x"), Panic(), SystemExit(3), asyncio.CancelledError()], ids=repr
)
async def test_what_is_no_error_of_archon_becomes_one(raised: BaseException) -> None:
    with pytest.raises(Unavailable, match="the embedder offline/1 failed: ") as error:
        await CheckedEmbedder(Odd(raised)).embed(["a text"])
    assert error.value.kind == EMBEDDING


@pytest.mark.parametrize("raised", [InvalidArgument("a text is refused"), TimeoutError()], ids=repr)
async def test_what_callers_expect_stays_as_it_is(raised: Exception) -> None:
    with pytest.raises(type(raised)) as error:
        await CheckedEmbedder(Odd(raised)).embed(["a text"])
    assert error.value is raised


@pytest.mark.parametrize(
    "returned",
    [None, [], [[1.0], [1.0], [1.0]], [[1.0], [1.0, 0.0]], [[], []], [["a"], ["b"]], [[1.0], [float("nan")]], 7],
    ids=repr,
)
async def test_what_are_no_embeddings_is_an_error(returned: Any) -> None:
    with pytest.raises(Unavailable, match="the embedder offline/1 failed: "):
        await CheckedEmbedder(Odd(returned)).embed(["a text", "another"])


async def test_lists_of_numbers_are_embeddings() -> None:
    first, second = await CheckedEmbedder(Odd([[1.0, 0.0], (0.0, 1.0)])).embed(["a text", "another"])
    assert (list(first), list(second)) == ([1.0, 0.0], [0.0, 1.0])


async def test_a_cancelled_caller_is_cancelled() -> None:
    class Slow(OfflineEmbedder):
        async def embed(self, texts: Sequence[str]) -> list[Vector]:
            await asyncio.Event().wait()
            return []

    call = asyncio.create_task(CheckedEmbedder(Slow()).embed(["a text"]))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
