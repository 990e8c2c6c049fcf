"""Limits of watches."""

from __future__ import annotations

from typing import Final

from tests.unit.docs.limit_rows.limit import Limit

LIMITS: Final[list[Limit]] = [
    Limit(
        "A message of a watch",
        "{archon_services.orchestrator.watch.hub:MAX_PAGE} events, no further one above {archon_services.orchestrator.watch.hub:BATCH_BYTES|bytes}",
        "The next message carries the rest.",
        ["test_queue_and_batches_of_a_watcher_are_bounded_in_bytes"],
    ),
    Limit(
        "Events queued for a watcher of a run",
        "{archon_services.orchestrator.watch.hub:MAX_QUEUED} events, {archon_services.orchestrator.watch.hub:MAX_QUEUED_BYTES|bytes}",
        "Deltas are dropped, durable events are read from the journal.",
        ["test_a_watcher_that_never_reads_loses_deltas_only"],
    ),
    Limit(
        "Events queued for all watchers of runs",
        "{archon_services.orchestrator.watch.hub:MAX_ALL_QUEUED_BYTES|bytes}",
        "Deltas are dropped, durable events are read from the journal.",
        [
            "test_what_is_queued_for_all_watchers_is_bounded",
            "test_a_watcher_that_finds_no_room_in_the_queues_reads_the_journal",
        ],
    ),
    Limit(
        "Events that all watchers have read from the journal and not taken",
        "{archon_services.orchestrator.watch.hub:MAX_BACKLOG_BYTES|bytes}, for "
        "{archon_services.orchestrator.watch.hub:BACKLOG_PATIENCE|seconds}",
        "A further watch waits so long, then: `RESOURCE_EXHAUSTED` with a delay.",
        ["test_watchers_that_do_not_take_what_they_read_are_bounded_in_bytes"],
    ),
    Limit(
        "Converse streams",
        "{archon_services.orchestrator.api.converse_stream:MAX_STREAMS}",
        "`RESOURCE_EXHAUSTED` with a delay",
        ["test_the_number_of_streams_is_bounded"],
    ),
    Limit(
        "Replies of a Converse stream that are not sent",
        "{archon_services.orchestrator.api.converse_stream:REPLIES_BYTES|bytes}",
        "The run in a further reply is `truncated`.",
        ["test_a_run_in_a_reply_is_truncated_if_many_replies_wait"],
    ),
    Limit(
        "A page that is read from the journal",
        "{archon_services.orchestrator.journal.page:PAGE_BYTES|bytes}",
        "The next page has the rest.",
        ["test_a_page_of_steps_or_records_ends_with_the_one_that_reaches_its_bytes"],
    ),
    Limit(
        "Watchers of runs",
        "{archon_services.orchestrator.watch.hub:MAX_WATCHERS}",
        "`RESOURCE_EXHAUSTED` with a delay",
        ["test_a_watch_above_max_watchers_is_refused_with_a_delay"],
    ),
    Limit(
        "Runs followed on one Converse stream",
        "{archon_services.orchestrator.api.converse_stream:MAX_RUNS}",
        "`RESOURCE_EXHAUSTED` with a delay, in the reply",
        ["test_a_submit_above_the_runs_of_a_stream_is_refused"],
    ),
    Limit(
        "Commands of one Converse stream that are in progress or whose reply is not sent",
        "{archon_services.orchestrator.api.converse_stream:MAX_COMMANDS}",
        "No further command is read until there is room.",
        ["test_commands_with_unread_replies_are_bounded"],
    ),
    Limit(
        "Text, and thinking, of an attempt in the view of a run",
        "{archon.run_view.task_events:TEXT_KEPT|characters}",
        "The last ones are kept. The result has the whole answer.",
        [
            "test_text_of_an_earlier_attempt_is_dropped",
            "test_thinking_lasts_until_text_or_a_tool_call_follows",
        ],
    ),
]
