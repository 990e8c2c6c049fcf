"""Limits of long-term memory."""

from __future__ import annotations

from typing import Final

from tests.unit.docs.limit_rows.limit import Limit

LIMITS: Final[list[Limit]] = [
    Limit(
        "Text of an entry; its metadata; a query",
        "{archon.memory.long_term.entry:MAX_CONTENT_BYTES|bytes}; {archon.memory.long_term.entry:MAX_METADATA} keys of {archon.memory.long_term.entry:MAX_METADATA_KEY} characters, values of {archon.memory.long_term.entry:MAX_METADATA_VALUE|characters}; {archon.memory.long_term.entry:MAX_QUERY_BYTES|bytes}",
        "`MESSAGE_TOO_LARGE`; `INVALID_ARGUMENT`",
        ["test_an_invalid_text_is_refused", "test_invalid_requests_are_refused"],
    ),
    Limit(
        "Entries that a query returns; of a page",
        "{archon.memory.long_term.entry:MAX_LIMIT}; {archon_services.common.paging:MAX_PAGE}, fewer if they are large",
        "`INVALID_ARGUMENT`",
        ["test_invalid_requests_are_refused", "test_large_entries_are_exported_in_several_pages"],
    ),
    Limit(
        "Entries of a tenant: active, archived; time without use",
        "{archon_mesh.memory.long_term.growth:DEFAULT_GROWTH.max_active}, {archon_mesh.memory.long_term.growth:DEFAULT_GROWTH.max_archived}; {archon_mesh.memory.long_term.growth:DEFAULT_GROWTH.archive_after|seconds}",
        "Archived, if they are active; deleted, if they are archived.",
        ["test_above_the_limit_those_used_longest_ago_go", "test_old_entries_without_use_are_archived"],
    ),
    Limit(
        "Waiting of a caller for the store, and for the embedder",
        "{archon_mesh.memory.long_term.guard:LIMIT|seconds} each; then {archon_mesh.memory.long_term.guard:FIRST_PAUSE|seconds} to {archon_mesh.memory.long_term.guard:LONGEST_PAUSE|seconds} without calls",
        "`UNAVAILABLE`; entries wait in the outbox",
        ["test_a_frozen_store_costs_a_caller_once_and_loses_nothing", "test_pauses_double_up_to_a_limit"],
    ),
    Limit(
        "Outbox of entries",
        "{archon_mesh.memory.long_term.outbox:MAX_ENTRIES}; {archon_mesh.memory.long_term.outbox:MAX_BYTES|bytes}",
        "`RESOURCE_EXHAUSTED` with a delay",
        ["test_a_full_outbox_is_refused_with_its_limits", "test_the_outbox_is_bounded_in_bytes"],
    ),
    Limit(
        "Operations of a SQLite store in progress",
        "{archon_mesh.memory.long_term.sqlite.database:MAX_WAITING}",
        "`RESOURCE_EXHAUSTED` with a delay",
        ["test_operations_in_flight_are_bounded"],
    ),
    Limit(
        "Cached queries; cached vectors of an embeddings API",
        "{archon_mesh.memory.long_term.query_cache:MAX_ENTRIES}, {archon_mesh.memory.long_term.query_cache:MAX_BYTES|bytes}, {archon_mesh.memory.long_term.query_cache:TTL|seconds}; {archon_mesh.memory.long_term.embedders.cache:MAX_ENTRIES}, {archon_mesh.memory.long_term.embedders.cache:MAX_BYTES|bytes}",
        "Those used longest ago are dropped.",
        [
            "test_the_query_cache_is_bounded_in_count_and_bytes",
            "test_the_vector_cache_drops_what_was_used_longest_ago",
        ],
    ),
    Limit(
        "Waiting of an agent for its memory: to recall; to store in a local one; to store when it is closed",
        "{archon_mesh.memory.automatic.access:LIMIT|seconds}; {archon_mesh.memory.automatic.access:STORE_LIMIT|seconds}; {archon_mesh.memory.automatic.recorder:FLUSH_LIMIT|seconds}",
        "The run continues without; entries wait.",
        [
            "test_a_frozen_memory_costs_all_runs_one_wait",
            "test_what_a_locked_file_cannot_take_arrives_later",
            "test_flush_ends_while_the_memory_is_down",
        ],
    ),
    Limit(
        "Entries of an agent that wait in its process for the memory service",
        "{archon_mesh.memory.automatic.recorder:MAX_WAITING}; {archon_mesh.memory.automatic.recorder:MAX_BYTES|bytes}",
        "The oldest are dropped, and the log says so.",
        ["test_what_waits_is_bounded_in_count_and_bytes"],
    ),
    Limit(
        "Preferences of a message; of a request; memories of a request",
        "{archon_mesh.memory.automatic.preferences:MAX_PREFERENCES}; {archon_mesh.memory.automatic.recall:MAX_PREFERENCES}; {archon_mesh.memory.automatic.settings:DEFAULT_RECALLED}, setting `limit`",
        "The newest, and those found best, within the part of the budget.",
        ["test_preferences_of_one_message_are_bounded", "test_memories_keep_to_their_part_of_the_budget"],
    ),
    Limit(
        "Summary of a history",
        "a quarter of the limit of the compaction, {archon_mesh.agent.hooks.compaction:MIN_SUMMARY} to {archon_mesh.agent.hooks.compaction:MAX_SUMMARY|characters}",
        "The latest instructions and facts come first.",
        ["test_the_latest_facts_have_room_first"],
    ),
    Limit(
        "Summaries of histories that a process keeps, for an agent's compaction",
        "{archon_mesh.agent.hooks.summary_cache:MAX_SUMMARIES}",
        "The one used longest ago is dropped, and made again.",
        ["test_the_cache_of_summaries_is_bounded"],
    ),
]
