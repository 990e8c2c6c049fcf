"""The recorded calls of a run of the mesh, or of the file of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from archon_services.cli.errors import FAILED, NOT_FOUND, CliError
from archon_services.cli.target.mesh import find_orchestrator, orchestrator_client
from archon_services.cli.target.run import find_run_id

if TYPE_CHECKING:
    from archon.history import RunFile
    from archon.types import RunRecord
    from archon_mesh.playground import RecordedCall

SUFFIX: Final = ".archon"


@dataclass(frozen=True, slots=True)
class RunRecords:
    """The records of a run in their order, and the ids of its tasks by their steps, if those are known."""

    run_id: str
    records: Sequence[RunRecord]
    steps: Mapping[str, str] = field(default_factory=dict)

    def call(self, task: str, number: int | None) -> RecordedCall:
        """Returns a model call, as `find_call` does."""
        from archon_mesh.playground import find_call, recorded_calls

        return find_call(recorded_calls(self.records), task, number, self.steps)


def is_run_file(name: str) -> bool:
    """Whether a RUN is the file of a run: an id has no dot and no slash."""
    return name.endswith(SUFFIX) or "/" in name or (not name.isalnum() and Path(name).is_file())


def open_run(path: Path) -> RunFile:
    """Opens the file of a run. Raises CliError if it cannot be read, or was changed."""
    from archon.errors import InvalidArgument
    from archon.history import open_run_file

    try:
        return open_run_file(path)
    except OSError as error:
        code = NOT_FOUND if isinstance(error, FileNotFoundError) else FAILED
        raise CliError(f"cannot read {path}: {error.strerror}", code=code) from None
    except InvalidArgument as error:
        raise CliError(error.message) from None


async def read_records(name: str, orchestrator: str) -> RunRecords:
    """Reads the records of a run: of a file if the name is one, else of the mesh. Raises CliError if there is none."""
    if is_run_file(name):
        file = open_run(Path(name))
        return RunRecords(file.run_id, list(file.records()))

    address = find_orchestrator(orchestrator)
    async with orchestrator_client(address) as client:
        run = await client.get(await find_run_id(client, name))
        records = [record async for record in client.records(run.run_id)]
    return RunRecords(run.run_id, records, {task.step_id: task.task_id for task in run.tasks if task.step_id})
