"""Converts between entries and Weaviate's objects, and describes the collection."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from archon.memory.long_term.entry import LongTermEntry
from archon_mesh.memory.long_term.port import Filters

NO_EMBEDDER: Final = "-"
"""The property `embedder` of an object without a current vector: an empty text cannot be filtered by."""

NO_VECTOR: Final = "unused"
"""A vector that no object has: a collection with named vectors needs one when it is created."""


def properties() -> list[Any]:
    """Returns the properties of the collection."""
    from weaviate.classes.config import DataType, Property, Tokenization

    def exact(name: str, kind: Any) -> Any:
        return Property(name=name, data_type=kind, tokenization=Tokenization.FIELD, index_searchable=False)

    def number(name: str, kind: Any = DataType.NUMBER) -> Any:
        return Property(name=name, data_type=kind)

    return [
        Property(
            name="content",
            data_type=DataType.TEXT,
            tokenization=Tokenization.WORD,
            index_filterable=False,
            index_searchable=True,
        ),
        exact("tenant", DataType.TEXT),
        exact("labels", DataType.TEXT_ARRAY),
        Property(name="metadata", data_type=DataType.TEXT, index_filterable=False, index_searchable=False),
        exact("embedder", DataType.TEXT),
        Property(name="checksum", data_type=DataType.TEXT, index_filterable=False, index_searchable=False),
        number("create_time"),
        number("used_or_created"),
        number("last_used"),
        number("importance"),
        number("use_count", DataType.INT),
        number("useful", DataType.INT),
        number("not_useful", DataType.INT),
        number("size", DataType.INT),
        number("archived", DataType.BOOL),
        number("damaged", DataType.BOOL),
    ]


def vector_name(embedder: str) -> str:
    """Returns the name of the vectors of an embedder: letters and digits only."""
    return "e" + hashlib.sha256(embedder.encode()).hexdigest()[:20]


def tenant_name(tenant: str) -> str:
    """Returns a tenant's name in Weaviate, which takes letters, digits, _ and - only."""
    return "t" + hashlib.sha256(tenant.encode()).hexdigest()[:40]


def to_properties(tenant: str, entry: LongTermEntry, embedder: str) -> dict[str, Any]:
    """Returns an entry as the properties of an object in Weaviate; metadata as JSON, and as labels to filter by."""
    return {
        "content": entry.content,
        "tenant": tenant,
        "labels": [f"{key}={value}" for key, value in entry.metadata.items()],
        "metadata": json.dumps(dict(entry.metadata), ensure_ascii=False),
        "embedder": embedder or NO_EMBEDDER,
        "checksum": entry.checksum,
        "create_time": entry.create_time,
        "used_or_created": entry.create_time if entry.last_used is None else entry.last_used,
        "last_used": entry.last_used,
        "importance": entry.importance,
        "use_count": entry.use_count,
        "useful": entry.useful,
        "not_useful": entry.not_useful,
        "size": len(entry.content.encode()),
        "archived": entry.archived,
        "damaged": False,
    }


def to_entry(found: Any) -> LongTermEntry | None:
    """Converts an object; None if it is damaged."""
    values: Mapping[str, Any] = found.properties
    try:
        embedder = str(values["embedder"])
        last_used = values.get("last_used")
        entry = LongTermEntry(
            id=str(found.uuid),
            content=values["content"],
            create_time=float(values["create_time"]),
            metadata=json.loads(values["metadata"]),
            importance=float(values["importance"]),
            use_count=int(values["use_count"]),
            last_used=None if last_used is None else float(last_used),
            useful=int(values["useful"]),
            not_useful=int(values["not_useful"]),
            archived=bool(values["archived"]),
            embedder="" if embedder == NO_EMBEDDER else embedder,
            checksum=values["checksum"],
        )
        return entry if entry.is_intact else None
    except (LookupError, ValueError, TypeError, AttributeError):
        return None


def to_filter(filters: Filters) -> Any:
    """Returns Weaviate's filter."""
    from weaviate.classes.query import Filter

    conditions = [Filter.by_property("damaged").equal(False)]
    if not filters.with_archived:
        conditions.append(Filter.by_property("archived").equal(False))
    if filters.metadata:
        conditions.append(label_filter(filters.metadata))
    return Filter.all_of(conditions)


def label_filter(metadata: Mapping[str, str]) -> Any:
    """Returns the filter for objects with all pairs of metadata."""
    from weaviate.classes.query import Filter

    return Filter.by_property("labels").contains_all([f"{key}={value}" for key, value in metadata.items()])
