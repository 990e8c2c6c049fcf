"""Conversion of entries of long-term memory to and from protobuf."""

from __future__ import annotations

from archon.api.memory.v1 import memory_pb2
from archon.memory.long_term.entry import LongTermEntry, LongTermStats, Source
from archon.wire import timestamp, to_seconds

_SOURCES = {
    memory_pb2.RETRIEVAL_SOURCE_HYBRID: Source.HYBRID,
    memory_pb2.RETRIEVAL_SOURCE_KEYWORD: Source.KEYWORD,
    memory_pb2.RETRIEVAL_SOURCE_RECENT: Source.RECENT,
}
_SOURCE_VALUES = {source: value for value, source in _SOURCES.items()}


def entry_to_proto(entry: LongTermEntry, score: float = 0.0) -> memory_pb2.LongTermEntry:
    """Returns the message of an entry."""
    return memory_pb2.LongTermEntry(
        entry_id=entry.id,
        content=entry.content,
        metadata=dict(entry.metadata),
        create_time=timestamp(entry.create_time),
        score=score,
        importance=entry.importance,
        use_count=entry.use_count,
        last_use_time=None if entry.last_used is None else timestamp(entry.last_used),
        useful_count=entry.useful,
        not_useful_count=entry.not_useful,
        archived=entry.archived,
        embedder=entry.embedder,
        checksum=entry.checksum,
    )


def entry_from_proto(message: memory_pb2.LongTermEntry) -> LongTermEntry:
    """Returns the entry of a message."""
    return LongTermEntry(
        id=message.entry_id,
        content=message.content,
        create_time=round(to_seconds(message.create_time), 6),
        metadata=dict(message.metadata),
        importance=message.importance,
        use_count=message.use_count,
        last_used=round(to_seconds(message.last_use_time), 6) if message.HasField("last_use_time") else None,
        useful=message.useful_count,
        not_useful=message.not_useful_count,
        archived=message.archived,
        embedder=message.embedder,
        checksum=message.checksum,
    )


def source_to_proto(source: Source) -> memory_pb2.RetrievalSource.ValueType:
    """Returns the value of the contract."""
    return _SOURCE_VALUES[source]


def source_from_proto(value: memory_pb2.RetrievalSource.ValueType) -> Source:
    """Returns the source; HYBRID for one that this version does not know."""
    return _SOURCES.get(value, Source.HYBRID)


def stats_to_proto(stats: LongTermStats) -> memory_pb2.LongTermStats:
    """Returns the message of counts."""
    return memory_pb2.LongTermStats(
        active=stats.active,
        archived=stats.archived,
        pending=stats.pending,
        damaged=stats.damaged,
        waiting=stats.waiting,
        content_bytes=stats.bytes,
    )


def stats_from_proto(message: memory_pb2.LongTermStats) -> LongTermStats:
    """Returns the counts of a message."""
    return LongTermStats(
        message.active, message.archived, message.pending, message.damaged, message.waiting, message.content_bytes
    )
