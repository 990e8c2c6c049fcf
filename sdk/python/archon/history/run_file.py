"""A run as one file: a ZIP archive with its history, its recorded calls and its published memory, and a manifest with
the SHA-256 of each part. docs/replay.md describes the format.

The bytes follow from the run alone: the parts have a fixed order and no times of the export. The chain and the seals in
the history prove its steps; the manifest shows that a part was changed by accident, and proves nothing.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from archon.api.orchestrator.v1 import run_pb2
from archon.errors import InvalidArgument
from archon.history.bundle import RunHistory, read_lines
from archon.types.run_record import RunRecord

RUN_FILE_VERSION: Final = 1
"""The version of the format. A version that only adds parts or keys keeps the number: readers leave out
unknown ones."""

MANIFEST: Final = "manifest.json"
HISTORY: Final = "history.jsonl"
RECORDS: Final = "records.jsonl"
MEMORY: Final = "memory.jsonl"
PARTS: Final = (HISTORY, RECORDS, MEMORY)

MAX_PART: Final = 4 * 1024**3
"""The most bytes of a part, as it is when it is not compressed."""

MAX_MANIFEST: Final = 16 * 1024 * 1024
_DAMAGED: Final = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)
"""The errors of `zipfile` for a damaged archive, beside KeyError for a missing part."""

_CHUNK: Final = 256 * 1024
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a ZIP archive can have."""

_USAGE: Final = (
    "input_tokens",
    "output_tokens",
    "model_calls",
    "tool_calls",
    "cost_micro_usd",
    "cached_input_tokens",
    "cache_write_tokens",
)


@dataclass(frozen=True, slots=True)
class PartDigest:
    """A part of the file: its size in bytes and its lines before compression, and its SHA-256 in hexadecimal digits."""

    bytes: int
    lines: int
    sha256: str


@dataclass(frozen=True, slots=True)
class RunManifest:
    """The manifest of a run file. `last_seq` is its last event, `made_by` the version of Archon that wrote the file,
    `event_revision` the newest form of events that it knows, `contract` the version of the messages, and `roles` the
    versions of the roles as they were registered at the export, empty for those without an instance then."""

    run_id: str
    last_seq: int
    ended: bool
    made_by: str = ""
    event_revision: int = 0
    contract: str = "v1"
    roles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    parts: Mapping[str, PartDigest] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MemoryVersion:
    """A version of a role's answer in the shared memory, which event `seq` published."""

    scope: str
    role: str
    version: int
    seq: int
    policy: str
    content: str
    metadata: Mapping[str, str] = field(default_factory=dict)


class RunFileWriter:
    """Writes a run file part by part: open a part with `part`, write its lines, and end with `close`. It holds no part
    in memory."""

    def __init__(self, output: IO[bytes]) -> None:
        self._archive = zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED)
        self._digests: dict[str, PartDigest] = {}

    def write_part(self, name: str, lines: Iterable[bytes]) -> None:
        """Writes a part from its lines. Each ends with a newline."""
        with self.part(name) as part:
            for line in lines:
                part.write(line)

    def abandon(self) -> None:
        """Ends an archive that is not complete, before its output is closed. Idempotent."""
        self._archive.close()

    def part(self, name: str) -> PartWriter:
        """Opens the next part, as a context manager."""
        return PartWriter(self._archive, name, self._digests)

    def close(self, manifest: RunManifest) -> None:
        """Writes the manifest, with the digests of the parts, and the end of the archive."""
        values = asdict(manifest)
        values["parts"] = {name: asdict(self._digests[name]) for name in sorted(self._digests)}
        values["roles"] = {role: sorted(versions) for role, versions in sorted(manifest.roles.items())}
        text = json.dumps({"archon_run": RUN_FILE_VERSION, **values}, indent=2) + "\n"
        self._archive.writestr(_info(MANIFEST), text.encode())
        self._archive.close()


class PartWriter:
    """A part that is being written."""

    def __init__(self, archive: zipfile.ZipFile, name: str, digests: dict[str, PartDigest]) -> None:
        self._name, self._digests = name, digests
        self._digest = hashlib.sha256()
        self._bytes = self._lines = 0
        self._sink = archive.open(_info(name), "w", force_zip64=True)

    def write(self, line: bytes) -> None:
        """Writes a line, which ends with a newline."""
        self._digest.update(line)
        self._bytes += len(line)
        self._lines += 1
        self._sink.write(line)

    def __enter__(self) -> PartWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._sink.close()
        self._digests[self._name] = PartDigest(self._bytes, self._lines, self._digest.hexdigest())


class RunFile:
    """A run file that was opened by `open_run_file`."""

    def __init__(self, path: Path, manifest: RunManifest) -> None:
        self.path = path
        self.manifest = manifest

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.manifest.run_id

    def history(self) -> RunHistory:
        """Returns the steps of the run, which `verify_run` verifies. Raises InvalidArgument if a line is no step."""
        with self._open(HISTORY) as source:
            history = read_lines(source, f"{self.path}: {HISTORY}")
        if history.run_id != self.run_id:
            raise InvalidArgument(f"{self.path}: {HISTORY} is of run {history.run_id}, the manifest of {self.run_id}")
        return history

    def records(self) -> Iterator[RunRecord]:
        """Yields the recorded calls of models and tools, in order. Raises InvalidArgument with the number of a line
        that is no record."""
        for number, values in self._objects(RECORDS):
            try:
                yield RunRecord(_record(self.run_id, values))
            except (KeyError, TypeError, ValueError):
                raise InvalidArgument(f"{self.path}: {RECORDS}: line {number} is no record of a call") from None

    def memory(self) -> Iterator[MemoryVersion]:
        """Yields the versions that the shared memory had of the run's answers at the export. Raises InvalidArgument
        with the number of any other line."""
        for number, values in self._objects(MEMORY):
            try:
                yield MemoryVersion(**values)
            except TypeError:
                raise InvalidArgument(f"{self.path}: {MEMORY}: line {number} is no version of an answer") from None

    def _objects(self, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
        if name not in self.manifest.parts:
            return
        with self._open(name) as source:
            for number, line in enumerate(source, 1):
                try:
                    values = json.loads(line)
                except (ValueError, RecursionError):
                    values = None
                if not isinstance(values, dict):
                    raise InvalidArgument(f"{self.path}: {name}: line {number} is no JSON object")
                yield number, values

    @contextmanager
    def _open(self, name: str) -> Iterator[IO[bytes]]:
        with zipfile.ZipFile(self.path) as archive, archive.open(name) as source:
            yield source


def open_run_file(path: Path | str) -> RunFile:
    """Opens a run file, and compares each part with its digest in the manifest; it verifies no seal. Raises
    InvalidArgument with the place if the file is no run file, of a newer version, cut off or changed; OSError if it
    cannot be read."""
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = _manifest(archive, path)
            for name, digest in manifest.parts.items():
                _check_part(archive, path, name, digest)
    except zipfile.BadZipFile:
        raise InvalidArgument(_no_archive(path)) from None
    except InvalidArgument:
        raise
    except _DAMAGED as error:
        raise InvalidArgument(f"{path} was changed: its archive cannot be read ({error})") from None
    return RunFile(path, manifest)


def record_line(call: RunRecord) -> bytes:
    """Returns the line of a recorded call: all fields, without loss."""
    record = call.proto
    values: dict[str, Any] = {
        "ordinal": record.ordinal,
        "kind": record.kind,
        "role": record.role,
        "target": record.target,
        "task_id": record.task.task_id,
        "attempt": record.task.attempt,
        "epoch": record.task.epoch,
        "start_nanos": record.start_time.ToNanoseconds(),
        "duration_nanos": record.duration.ToNanoseconds(),
    }
    if record.HasField("usage"):
        usage: dict[str, Any] = {name: count for name in _USAGE if (count := getattr(record.usage, name))}
        values["usage"] = usage | ({"estimated": True} if record.usage.estimated else {})
    values |= {"request_json": record.request_json, "response_json": record.response_json}
    return _line(values)


def memory_line(version: MemoryVersion) -> bytes:
    """Returns the line of a version of an answer."""
    return _line(asdict(version) | {"metadata": dict(sorted(version.metadata.items()))})


def _manifest(archive: zipfile.ZipFile, path: Path) -> RunManifest:
    try:
        with archive.open(MANIFEST) as source:
            values = json.loads(source.read(MAX_MANIFEST))
    except KeyError:
        raise InvalidArgument(f"{path} is no run file: it has no {MANIFEST}") from None
    except _DAMAGED:
        raise InvalidArgument(f"{path}: {MANIFEST} was changed: it cannot be read") from None
    version = values.get("archon_run") if isinstance(values, dict) else None
    if not isinstance(version, int):
        raise InvalidArgument(f"{path} is no run file: {MANIFEST} has no `archon_run`")
    if version > RUN_FILE_VERSION:
        made_by = f", written by Archon {values['made_by']}" if values.get("made_by") else ""
        raise InvalidArgument(
            f"{path} is a run file of version {version}{made_by}; this version of Archon reads files up to version "
            f"{RUN_FILE_VERSION}"
        )
    try:
        return RunManifest(
            str(values["run_id"]),
            int(values["last_seq"]),
            bool(values["ended"]),
            str(values.get("made_by", "")),
            int(values.get("event_revision", 0)),
            str(values.get("contract", "")),
            {str(role): tuple(map(str, versions)) for role, versions in values.get("roles", {}).items()},
            {
                str(name): PartDigest(int(part["bytes"]), int(part["lines"]), str(part["sha256"]))
                for name, part in values["parts"].items()
            },
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InvalidArgument(f"{path}: {MANIFEST} was changed: it lacks what a manifest has") from None


def _check_part(archive: zipfile.ZipFile, path: Path, name: str, expected: PartDigest) -> None:
    digest, size, lines = hashlib.sha256(), 0, 0
    try:
        with archive.open(name) as source:
            while chunk := source.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
                lines += chunk.count(b"\n")
                if size > MAX_PART:
                    raise InvalidArgument(f"{path}: {name} has more than {MAX_PART:,} bytes")
    except KeyError:
        raise InvalidArgument(f"{path}: {name} is missing") from None
    except InvalidArgument:
        raise
    except _DAMAGED:
        raise InvalidArgument(f"{path}: {name} was changed after line {lines}: it cannot be read") from None
    if (size, lines, digest.hexdigest()) != (expected.bytes, expected.lines, expected.sha256):
        place = _changed_step(archive) if name == HISTORY else ""
        counted = f"{lines} lines in place of {expected.lines}" if lines != expected.lines else "its SHA-256 differs"
        raise InvalidArgument(f"{path}: {name} was changed: {place or counted}")


def _changed_step(archive: zipfile.ZipFile) -> str:
    """Returns the first broken link of a changed history, empty if no link is broken."""
    from archon.history.verify import verify_run

    try:
        with archive.open(HISTORY) as source:
            history = read_lines(source, HISTORY)
    except InvalidArgument as error:
        return error.message
    return verify_run(history.run_id, history.steps, last_seq=history.last_seq, ended=history.ended).fault


def _no_archive(path: Path) -> str:
    with path.open("rb") as source:
        head = source.read(4)
        size = source.seek(0, 2)
    if head[:2] == b"PK":
        return f"{path} is cut off after {size:,} bytes: the end of the archive is missing"
    return f"{path} is no run file: `archon export` writes one"


def _record(run_id: str, values: Mapping[str, Any]) -> run_pb2.RunRecord:
    record = run_pb2.RunRecord(
        role=values["role"],
        ordinal=values["ordinal"],
        kind=values["kind"],
        target=values["target"],
        request_json=values["request_json"],
        response_json=values["response_json"],
    )
    task = record.task
    task.run_id, task.task_id = run_id, values["task_id"]
    task.attempt, task.epoch = values["attempt"], values["epoch"]
    record.start_time.FromNanoseconds(values["start_nanos"])
    record.duration.FromNanoseconds(values["duration_nanos"])
    if "usage" in values:
        record.usage.SetInParent()
        for name, count in values["usage"].items():
            setattr(record.usage, name, count)
    return record


def _info(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type, info.create_system, info.external_attr = zipfile.ZIP_DEFLATED, 3, 0o600 << 16
    return info


def _line(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode() + b"\n"
