"""The creation of a run by its first step, and the caller that waits for it."""

from __future__ import annotations

import asyncio

from archon.errors import ArchonError, Internal, Unavailable
from archon_services.orchestrator.journal import NewRun, SameRequest, StepResult


class Creation:
    """Belongs to one driver. `new` is the row that the first step stores; None once it is stored, or if the run was
    loaded."""

    __slots__ = ("_until_end", "_waiter", "new", "same_as")

    def __init__(self, new: NewRun | None) -> None:
        self.new = new
        self.same_as = ""
        """The run that the same request created before, if this one was not created for that reason."""

        self._waiter: asyncio.Future[None] | None = None
        self._until_end = False

    def waiter(self, *, until_end: bool = False) -> asyncio.Future[None]:
        """Returns a future that ends when the first step is durable, or with the error that refused it. With
        `until_end` it ends when the run is not driven any more, or when `stop_waiting` is called after that step."""
        self._waiter = asyncio.get_running_loop().create_future()
        self._until_end = until_end
        return self._waiter

    def stop_waiting(self) -> None:
        """The caller of `waiter(until_end=True)` has waited long enough."""
        self._until_end = False
        if self.new is None:
            self.resolve()

    def stored(self) -> None:
        """The first step is durable."""
        self.new = None
        if not self._until_end:
            self.resolve()

    def refused(self, result: StepResult, run_id: str) -> None:
        """The first step was not stored."""
        self.new = None
        if isinstance(result, SameRequest):
            self.same_as = result.run_id
            self.resolve()
        elif isinstance(result, ArchonError):
            self.resolve(result)
        else:
            self.resolve(Internal(f"run {run_id} was not created: {result}"))

    def ended(self) -> None:
        """The run is not driven any more."""
        if self.new is None:
            self.resolve()
        else:
            text = "the orchestrator is stopping; the run may have been created"
            self.resolve(Unavailable(text, retry_delay=1.0))

    def resolve(self, error: ArchonError | None = None) -> None:
        """Ends the wait of the caller, if there is one: it returns, or raises the error."""
        waiter, self._waiter = self._waiter, None
        if waiter is None or waiter.done():
            return
        if error is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(error)
