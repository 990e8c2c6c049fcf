"""Limits of the memory service."""

from __future__ import annotations

from typing import Final

from tests.unit.docs.limit_rows.limit import Limit

LIMITS: Final[list[Limit]] = [
    Limit(
        "Text of an item, a publish",
        "{archon_services.memory.api.graph_validation:MAX_CONTENT|bytes}, {archon.memory.values:MAX_PUBLISH_BYTES|bytes}",
        "`MESSAGE_TOO_LARGE`",
        ["test_text_above_4_mib_is_refused_below_it_not"],
    ),
    Limit(
        "Metadata of an item",
        "{archon_services.memory.domain.publishing:MAX_METADATA} entries",
        "`RESOURCE_EXHAUSTED`",
        ["test_merged_metadata_is_bounded"],
    ),
    Limit(
        "Items of the tasks of a role in a scope",
        "the last {archon_services.memory.domain.publishing:MAX_VERSIONS} versions",
        "Older ones are deleted when the role publishes.",
        ["test_the_items_of_a_roles_tasks_are_bounded"],
    ),
    Limit(
        "Items in one response",
        "{archon_services.memory.api.graph_servicer:MAX_RESPONSE_BYTES|bytes}",
        "`MESSAGE_TOO_LARGE`; WatchItems returns each item by itself.",
        ["test_response_above_the_clients_limit_names_the_reason"],
    ),
    Limit(
        "Searches of items in progress; passages of one search",
        "{archon_services.memory.api.graph_servicer:MAX_SEARCHES}; {archon_services.memory.domain.item_search:MAX_PASSAGES}",
        "`RESOURCE_EXHAUSTED` with a delay; the rest is not searched",
        ["test_searches_in_progress_are_bounded", "test_passages_of_a_search_are_bounded"],
    ),
    Limit(
        "Publishes in progress",
        "{archon_services.memory.store.sql_store:MAX_PUBLISHES}",
        "`RESOURCE_EXHAUSTED` with a delay",
        ["test_publishes_in_flight_are_bounded"],
    ),
    Limit(
        "Publishes queued for a watcher of items",
        "{archon_services.common.feed:MAX_QUEUED}, {archon_services.memory.store.sql_store:MAX_QUEUED_CHARACTERS|characters}",
        "The watch ends with `RESOURCE_EXHAUSTED` with a delay.",
        ["test_slow_watcher_is_disconnected_and_another_is_not"],
    ),
    Limit(
        "Items published without a session",
        "`delete_after` of the orchestrator",
        "Deleted; their versions are kept.",
        ["test_items_without_a_session_are_deleted_with_their_run"],
    ),
    Limit(
        "A value of working memory",
        "{archon.memory.values:MAX_VALUE_BYTES|bytes}",
        "`MESSAGE_TOO_LARGE`",
        ["test_value_above_a_mebibyte_is_refused_one_of_that_size_not"],
    ),
    Limit(
        "Working memory of a scope",
        "{archon.memory.values:MAX_KEYS} keys, deleted ones included; {archon_services.memory.domain.working:MAX_SCOPE_BYTES|bytes}",
        "`RESOURCE_EXHAUSTED`",
        [
            "test_keys_of_a_scope_are_bounded_and_existing_ones_writable",
            "test_values_of_a_scope_are_bounded_in_bytes",
        ],
    ),
    Limit(
        "A fact; its key; its contradictions; tasks that it counts as having confirmed it; time in which an arbiter "
        "settles a contradiction; time in which the facts are read that an answer is compared with",
        "{archon.agent.facts:MAX_FACT_BYTES|bytes}; {archon.agent.facts:MAX_FACT_KEY|characters}; "
        "{archon.agent.facts:MAX_CONTRADICTIONS}; {archon.agent.facts:MAX_CONFIRMED}; "
        "{archon.agent.facts:ARBITER_SECONDS|seconds}; {archon.agent.facts:READ_SECONDS|seconds}",
        "`RESOURCE_EXHAUSTED`; `INVALID_ARGUMENT`; settled ones make room, else `RESOURCE_EXHAUSTED`; further ones are "
        "not counted; the contradiction stays open; the answer counts without.",
        ["test_facts_are_bounded", "test_an_answer_counts_though_the_facts_cannot_be_read"],
    ),
    Limit(
        "Items of a work list; bytes of an item, of its result; tries of an item; lists of one task",
        "{archon.agent.work_item:MAX_ITEMS}; {archon.agent.work_item:MAX_ITEM_BYTES|bytes}, "
        "{archon.agent.work_item:MAX_RESULT_BYTES|bytes}; {archon.agent.work_list:TRIES}, at most "
        "{archon.agent.work_item:MAX_TRIES}; {archon.agent.task:MAX_WORK_LISTS}",
        "`RESOURCE_EXHAUSTED`; the item has failed; `FAILED_PRECONDITION`.",
        ["test_lists_items_and_results_are_bounded", "test_an_item_that_fails_in_every_hand_is_reported"],
    ),
    Limit(
        "Time for which a member of a work list keeps an item without a sign of life; time that it waits for the "
        "memory service; time that `take` waits",
        "{archon.agent.work_list:LEASE_SECONDS|seconds}; {archon.agent.work_list:OUTAGE_SECONDS|seconds}; "
        "{archon.agent.work_list:WAIT_SECONDS|seconds}, or until the task ends",
        "Another member gets the item; `UNAVAILABLE`; `DEADLINE_EXCEEDED`.",
        [
            "test_an_item_of_a_dead_member_comes_back_after_the_lease",
            "test_reads_wait_a_minute_for_a_service_that_is_away",
            "test_take_ends_with_an_error_at_the_end_of_its_time",
        ],
    ),
    Limit(
        "Watches of working memory, of one memory service; bytes of a message of one",
        "{archon_services.memory.store.value_watches:MAX_WATCHES}; "
        "{archon_services.memory.store.value_watches:MAX_BATCH_BYTES|bytes}",
        "`RESOURCE_EXHAUSTED` with a delay; the next message has the rest. For a reader that is slow only the keys "
        "of changes are kept.",
        ["test_watches_are_bounded_and_end_with_the_service", "test_large_values_are_divided_into_batches"],
    ),
    Limit(
        "Tries of `TaskContext.shared.update`; bytes of a value that is announced with its key",
        "{archon.agent.shared:MAX_UPDATES}; {archon.agent.shared:MAX_ANNOUNCED|bytes}",
        "`ABORTED` / `CONFLICT`; the key alone is announced.",
        ["test_concurrent_updates_lose_no_write", "test_a_value_is_announced_to_those_who_subscribed"],
    ),
    Limit(
        "A page of working memory",
        "{archon_services.common.paging:MAX_PAGE} values, no further one above {archon_services.memory.domain.working:MAX_PAGE_BYTES|bytes}",
        "The next page has the rest.",
        ["test_page_of_large_values_is_cut_short"],
    ),
    Limit(
        "Writes to working memory in progress",
        "{archon_services.memory.store.working_writes:MAX_IN_FLIGHT|characters}",
        "`RESOURCE_EXHAUSTED` with a delay",
        ["test_writes_in_flight_are_bounded"],
    ),
    Limit(
        "Working memory of a scope without a write",
        "{archon_services.memory.domain.working:RETENTION|seconds}",
        "Deleted, versions included.",
        ["test_scope_expires_a_month_after_its_last_write"],
    ),
    Limit(
        "Writes to the shared storage queued at an agent",
        "one per key; {archon_mesh.node.shared_storage:MAX_PENDING|characters}",
        "The value stays in the process; logged once per task.",
        [
            "test_key_written_repeatedly_is_pending_once",
            "test_values_above_the_pending_limit_stay_local",
        ],
    ),
    Limit(
        "Waiting of a task for its shared storage: read at the start, write before the result",
        "{archon_mesh.node.shared_storage:READ_TIMEOUT|seconds}; {archon_mesh.node.shared_storage:FLUSH_TIMEOUT|seconds}",
        "Values stay in the process; logged once per task.",
        ["test_unavailable_memory_fails_no_task_and_is_logged_once"],
    ),
    Limit(
        "Request ids and fences of the memory service",
        "{archon_services.memory.domain.publishing:REQUEST_RETENTION|seconds}; {archon_services.memory.domain.publishing:FENCE_RETENTION|seconds}",
        "Deleted.",
        ["test_expired_rows_are_deleted_from_every_table"],
    ),
]
