"""The tables of the SQLite store."""

from __future__ import annotations

from typing import Final

VERSION: Final = 1

# entries: `embedder` names the embedder of the entry's vector, empty if there is none.
# labels: a row for each pair of metadata, by which searches filter.
# words: the texts once more, for the full-text index; deletions remove words from the file at once (secure-delete).
# embedders: the vectors of embedder N are in the table vectors_N, because tables differ in their dimensions.
TABLES: Final = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS entries (
  number INTEGER PRIMARY KEY, tenant TEXT NOT NULL, id TEXT NOT NULL,
  content TEXT NOT NULL, create_time REAL NOT NULL, metadata TEXT NOT NULL,
  importance REAL NOT NULL, use_count INTEGER NOT NULL, last_used REAL, useful INTEGER NOT NULL,
  not_useful INTEGER NOT NULL, archived INTEGER NOT NULL, embedder TEXT NOT NULL, checksum TEXT NOT NULL,
  damaged INTEGER NOT NULL DEFAULT 0,
  UNIQUE (tenant, id)
);
CREATE INDEX IF NOT EXISTS entries_by_time ON entries (tenant, damaged, archived, create_time);
CREATE INDEX IF NOT EXISTS entries_by_use
  ON entries (tenant, damaged, archived, coalesce(last_used, create_time));
CREATE INDEX IF NOT EXISTS entries_by_embedder ON entries (embedder) WHERE archived = 0 AND damaged = 0;
CREATE TABLE IF NOT EXISTS labels (
  tenant TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,
  entry INTEGER NOT NULL REFERENCES entries (number) ON DELETE CASCADE,
  PRIMARY KEY (tenant, key, value, entry)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS labels_by_entry ON labels (entry);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(content, tokenize = "porter unicode61 remove_diacritics 2");
INSERT INTO words (words, rank) VALUES ('secure-delete', 1);
CREATE TABLE IF NOT EXISTS embedders (
  number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, dimensions INTEGER NOT NULL
);
"""

COLUMNS: Final = (
    "id, content, create_time, metadata, importance, use_count, last_used, useful, not_useful, archived, embedder, "
    "checksum"
)


def vector_table(number: int, dimensions: int) -> str:
    """Returns the statement that creates the table of an embedder's vectors.

    The distance is L2, which sqlite-vec computes faster than the cosine; for vectors of length 1, one gives the other.
    """
    return (
        f"CREATE VIRTUAL TABLE vectors_{number} USING vec0(tenant TEXT PARTITION KEY, "
        f"embedding float[{dimensions}] distance_metric=l2, chunk_size=256)"
    )
