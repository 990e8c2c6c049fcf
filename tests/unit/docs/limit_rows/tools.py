"""Limits of tools."""

from __future__ import annotations

from typing import Final

from tests.unit.docs.limit_rows.limit import Limit

LIMITS: Final[list[Limit]] = [
    Limit(
        "Leases of an owner's shared tools; seconds of a lease by default and at most; without use until it makes room",
        "{archon.tools.owner.leases:MAX_LEASES}; {archon.tools.owner.leases:LEASE_SECONDS|seconds}, "
        "{archon.tools.owner.leases:MAX_LEASE_SECONDS|seconds}; {archon.tools.owner.leases:IDLE_SECONDS|seconds}",
        "`RESOURCE_EXHAUSTED` with a delay; a longer lease is granted for the maximum",
        [
            "test_leases_are_bounded_and_idle_ones_make_room",
            "test_a_lease_lasts_an_hour_at_most",
        ],
    ),
    Limit(
        "Calls of shared tools per minute with one lease, and with all of a tool; in progress with one lease, of one "
        "tool, of one owner",
        "{archon.tools.shared_tool:CALLS_PER_MINUTE}, {archon.tools.shared_tool:TOTAL_PER_MINUTE}; "
        "{archon.tools.owner.tool_owner:MAX_CALLS_OF_LEASE}, {archon.tools.shared_tool:MAX_CONCURRENT}, "
        "{archon.tools.owner.tool_owner:MAX_CALLS}",
        "`RESOURCE_EXHAUSTED` with a delay",
        [
            "test_calls_above_the_rate_of_a_lease_are_refused",
            "test_calls_in_progress_are_bounded",
            "test_a_lease_gives_a_bounded_number_of_calls_at_a_time",
        ],
    ),
    Limit(
        "Seconds of a call of a shared tool by default and at most; bytes of its arguments and of its result",
        "{archon.tools.owner.tool_owner:CALL_SECONDS|seconds}, {archon.tools.shared_tool:MAX_SECONDS|seconds}; "
        "{archon.tools.shared_tool:MAX_ARGUMENTS_BYTES|bytes}, {archon.tools.result:MAX_RESULT_BYTES|bytes}",
        "A result with the status TIMEOUT; `INVALID_ARGUMENT`; an error result",
        [
            "test_a_call_above_its_time_is_a_timeout",
            "test_arguments_are_bounded_and_checked",
            "test_a_failure_of_a_tool_is_a_result",
        ],
    ),
    Limit(
        "Texts of progress that wait for a caller, characters of one; results that are kept by idempotency keys, their "
        "bytes, and how long",
        "{archon.tools.owner.execution:MAX_WAITING_PROGRESS}, {archon.tools.owner.execution:MAX_PROGRESS|characters}; "
        "{archon.tools.owner.kept_results:MAX_KEPT}, {archon.tools.owner.kept_results:MAX_KEPT_BYTES|bytes}, "
        "{archon.tools.owner.kept_results:KEPT_SECONDS|seconds}",
        "Older texts are dropped, a longer one is cut; the oldest results are forgotten.",
        [
            "test_progress_without_end_is_bounded_and_ends",
            "test_kept_results_are_bounded_in_count_bytes_and_time",
        ],
    ),
    Limit(
        "Answer of an owner of a shared tool, texts of progress that its caller hears; times that a call is sent; "
        "leases that a run holds",
        "{archon.tools.caller.peer:MAX_ANSWER_BYTES|bytes}, {archon.tools.caller.peer:MAX_PROGRESS}; "
        "{archon.tools.caller.leased_tool:MAX_TRIES}; {archon_mesh.tools.remote_calls:MAX_LEASES}",
        "The call fails typed; further texts are dropped; the last error counts; a call is leased for itself.",
        ["test_an_owner_that_lies_fails_the_call_typed"],
    ),
    Limit(
        "Time of an attempt at a tool call; factor after a timeout",
        "{archon_mesh.tools.engine:TIMEOUT|seconds}, `tool_timeout` of the agent, `timeout` of the tool; {archon_mesh.tools.retries:TIMEOUT_FACTOR}",
        "The call is cancelled; the result says so.",
        ["test_slow_tool_is_a_timeout_result", "test_timeout_is_retried_once_with_a_longer_limit"],
    ),
    Limit(
        "Time that a cancelled tool has to end",
        "{archon_mesh.tools.execution:GRACE|seconds}",
        "It is abandoned; the caller goes on.",
        ["test_tool_that_ignores_its_cancellation_does_not_hold_the_caller"],
    ),
    Limit(
        "Threads of a plain function, with those of calls that timed out",
        "{archon_mesh.tools.function:MAX_THREADS}",
        "`RESOURCE_EXHAUSTED` of the kind `tool.resource_exhaustion`",
        ["test_threads_that_do_not_end_are_bounded"],
    ),
    Limit(
        "Retries of a tool call: by default if the tool is idempotent, at most",
        "{archon_mesh.tools.retries:RETRIES}, {archon_mesh.tools.tool:MAX_RETRIES}",
        "The last failure is the result.",
        ["test_only_a_tool_that_is_safe_to_repeat_is_retried", "test_declaration_out_of_range_is_refused"],
    ),
    Limit(
        "Pause before a retry of a tool call",
        "{archon_mesh.tools.retries:BASE|seconds}, doubled up to {archon_mesh.tools.retries:MAX_PAUSE|seconds}",
        "A failure that asks for a longer delay is not retried.",
        [
            "test_pauses_double_with_full_jitter_and_honour_the_asked_delay",
            "test_delay_that_is_too_long_is_left_to_the_caller",
        ],
    ),
    Limit(
        "Failures of a tool in a row; time without calls after them",
        "{archon_mesh.tools.breaker:FAILURES}; {archon_mesh.tools.breaker:OPEN_SECONDS|seconds}",
        "`UNAVAILABLE` with a delay, or the tool's alternative; then one call decides.",
        ["test_breaker_opens_per_tool_and_one_probe_closes_it", "test_alternative_that_cannot_answer_is_not_used"],
    ),
    Limit(
        "Time that a tool which timed out is marked as slow",
        "{archon_mesh.tools.health:SLOW_SECONDS|seconds}",
        "The tool is asked again.",
        ["test_alternative_answers_for_a_tool_that_timed_out_twice"],
    ),
    Limit(
        "Calls of a tool per minute",
        "`rate` of the tool, at most {archon_mesh.tools.tool:MAX_RATE}",
        "`RESOURCE_EXHAUSTED` with a delay, or the tool's alternative",
        ["test_rate_of_a_tool_refuses_further_calls_with_a_delay"],
    ),
    Limit(
        "Calls of all tools of an agent per minute; of these, calls that wait",
        "`tool_quota` of the agent, at most {archon_mesh.tools.tool:MAX_RATE}; {archon_mesh.tools.quota:MAX_WAITING}",
        "`RESOURCE_EXHAUSTED` with a delay",
        [
            "test_call_without_a_turn_in_its_time_is_refused",
            "test_waiting_calls_are_bounded_and_cancelled_ones_make_room",
        ],
    ),
    Limit(
        "Arguments of a tool call",
        "{archon_mesh.tools.tool:MAX_INPUT_BYTES|bytes}; `max_input_bytes` of the tool",
        "`INVALID_ARGUMENT` of the kind `tool.resource_exhaustion`",
        ["test_arguments_above_the_tools_limit_are_refused"],
    ),
    Limit(
        "Result of a tool call: text or JSON, files that no model reads",
        "{archon_mesh.tools.output_limit:MAX_OUTPUT_BYTES|bytes}, {archon_mesh.tools.output_limit:MAX_MEDIA_BYTES|bytes}; `max_output_bytes` of the tool",
        "Cut, with a note that says how much was left out.",
        ["test_long_text_is_cut_with_a_note", "test_images_are_bounded_together"],
    ),
    Limit(
        "Answer of a sub-agent",
        "{archon_mesh.agent.subagents:MAX_ANSWER_BYTES|bytes}",
        "Cut, with a note that says how much was left out.",
        ["test_answer_of_a_sub_agent_may_be_longer_than_a_tools_result"],
    ),
    Limit(
        "Error message of a tool; metadata that a tool sets",
        "{archon_mesh.tools.failures:MAX_MESSAGE|characters}; {archon_mesh.tools.output_limit:MAX_METADATA_BYTES|bytes}",
        "The message is cut; the metadata is left out.",
        ["test_large_message_and_metadata_of_a_tool_are_cut"],
    ),
    Limit(
        "Cached results of an agent's tools",
        "{archon_mesh.tools.cache:MAX_ENTRIES}; {archon_mesh.tools.cache:MAX_BYTES|bytes}",
        "The least recently used results make room.",
        ["test_least_recently_used_entry_makes_room", "test_cache_is_bounded_in_bytes"],
    ),
    Limit(
        "Time that a person has to give a credential",
        "{archon_mesh.tools.credentials:ASK_SECONDS|seconds}",
        "`PERMISSION_DENIED`",
        ["test_person_without_an_answer_is_a_denied_call"],
    ),
    Limit(
        "Durations that the health of a tool is computed from",
        "{archon_mesh.tools.health:RECENT}",
        "The oldest are forgotten.",
        ["test_latency_is_that_of_the_last_calls"],
    ),
    Limit(
        "Page that `fetch_page` reads, decompressed; its text; characters of a URL",
        "{archon_mesh.tools.builtin.web.fetch_page:MAX_PAGE_BYTES|bytes}; {archon_mesh.tools.builtin.web.fetch_page:MAX_TEXT|characters}; {archon_mesh.tools.builtin.web.client:MAX_URL}",
        "The page is cut and says so; the URL: `INVALID_ARGUMENT`.",
        ["test_endless_page_is_cut_while_it_is_read", "test_url_that_is_not_http_is_refused"],
    ),
    Limit(
        "Redirects of a page; addresses of a host that are tried",
        "{archon_mesh.tools.builtin.web.client:MAX_REDIRECTS}; {archon_mesh.tools.builtin.web.addresses:MAX_ADDRESSES}",
        "`FAILED_PRECONDITION`; further addresses are not tried.",
        ["test_redirects_are_followed_five_times", "test_only_the_first_addresses_of_a_host_are_tried"],
    ),
    Limit(
        "Time of a page or a search with its redirects; of a connection; without a byte; of parsing a page",
        "{archon_mesh.tools.builtin.web.client:TOTAL_SECONDS|seconds}; {archon_mesh.tools.builtin.web.client:CONNECT_SECONDS|seconds}; {archon_mesh.tools.builtin.web.client:READ_SECONDS|seconds}; {archon_mesh.tools.builtin.web.html:PARSE_SECONDS|seconds}",
        "`DEADLINE_EXCEEDED`; the text is cut.",
        ["test_server_that_hangs_is_a_timeout", "test_hostile_html_does_not_hold_the_parser"],
    ),
    Limit(
        "Results of a search; answer of the search endpoint",
        "{archon_mesh.tools.builtin.web.search:MAX_RESULTS}; {archon_mesh.tools.builtin.web.search:MAX_ANSWER_BYTES|bytes}",
        "Further results are left out; `RESOURCE_EXHAUSTED`.",
        [
            "test_search_returns_title_snippet_and_url",
            "test_answer_that_holds_no_results_is_a_typed_error",
        ],
    ),
    Limit(
        "Result of a query of a database: rows, columns, a value, all rows",
        "{archon_mesh.tools.builtin.sql.database:MAX_ROWS}, {archon_mesh.tools.builtin.sql.database:MAX_COLUMNS}, {archon_mesh.tools.builtin.sql.database:MAX_CELL|characters}, {archon_mesh.tools.builtin.sql.database:MAX_RESULT_BYTES|bytes}",
        "The result is cut and says so.",
        ["test_rows_cells_columns_and_bytes_are_bounded", "test_rows_and_values_are_bounded_by_the_server"],
    ),
    Limit(
        "Time of a query of a database; queries of one tool at the same time",
        "{archon_mesh.tools.builtin.sql.tools:SECONDS|seconds}; {archon_mesh.tools.builtin.sql.tools:MAX_RUNNING}",
        "`DEADLINE_EXCEEDED`; `RESOURCE_EXHAUSTED` with a delay",
        [
            "test_endless_query_is_interrupted",
            "test_slow_query_is_ended_by_the_server_too",
            "test_queries_at_the_same_time_are_bounded",
        ],
    ),
    Limit(
        "What PostgreSQL sends for a query; characters of its errors",
        "{archon_mesh.tools.builtin.sql.postgres:MAX_RECEIVED|bytes}; "
        "{archon_mesh.tools.builtin.sql.postgres:MAX_MESSAGE}",
        "`RESOURCE_EXHAUSTED`; it is cut",
        ["test_an_error_of_the_server_is_cut"],
    ),
    Limit(
        "Value within a query of SQLite",
        "{archon_mesh.tools.builtin.sql.sqlite_read:MAX_VALUE_BYTES|bytes}",
        "`INVALID_ARGUMENT`",
        ["test_large_values_within_a_query_are_refused"],
    ),
    Limit(
        "Memory of a query of SQLite; a temporary file of it; queries of all files at the same time",
        "{archon_mesh.tools.builtin.sql.sqlite:MEMORY_BYTES|bytes}; "
        "{archon_mesh.tools.builtin.sql.sqlite:FILE_BYTES|bytes}; {archon_mesh.tools.builtin.sql.sqlite:AT_ONCE}",
        "`RESOURCE_EXHAUSTED`; others wait",
        ["test_a_query_keeps_its_memory", "test_a_request_waits_for_a_free_process"],
    ),
    Limit(
        "Nodes of a composite tool; composite tools inside of each other",
        "{archon_mesh.tools.composite.validation:MAX_NODES}; {archon_mesh.tools.composite.validation:MAX_DEPTH}",
        "`validate` raises `CompositeTooDeep`.",
        ["test_too_many_nodes_and_levels_are_refused"],
    ),
    Limit(
        "Items of a node with `for_each`; its calls at the same time; all calls of a composite tool at the same time",
        "{archon_mesh.tools.composite.nodes:MAX_ITEMS}; {archon_mesh.tools.composite.nodes:PARALLEL}; {archon_mesh.tools.composite.composite:MAX_PARALLEL}",
        "The node fails; calls wait.",
        [
            "test_list_above_its_bound_fails_the_node",
            "test_items_run_in_parallel_up_to_their_bound_in_order",
            "test_calls_of_a_composite_at_the_same_time_are_bounded",
        ],
    ),
    Limit(
        "Time of a call of a composite tool; of its compensations together",
        "{archon_mesh.tools.composite.composite:SECONDS|seconds}; {archon_mesh.tools.composite.execution:COMPENSATION_SECONDS|seconds}",
        "The call is aborted and compensated; further compensations are reported as failed.",
        ["test_call_that_takes_too_long_is_aborted_and_undone"],
    ),
    Limit(
        "Partial results of an aborted composite tool",
        "{archon_mesh.tools.composite.execution:MAX_PARTIAL_BYTES|bytes}",
        "Results that do not fit are left out.",
        ["test_large_partial_results_are_left_out"],
    ),
    Limit(
        "Tools of an MCP server; pages of their list",
        "{archon_mesh.tools.mcp.listing:MAX_TOOLS}; {archon_mesh.tools.mcp.listing:MAX_PAGES}",
        "Further tools are left out, and that is logged.",
        ["test_a_million_tools_and_endless_pages_are_bounded"],
    ),
    Limit(
        "Description of a tool of an MCP server; its schema; levels of the schema",
        "{archon_mesh.tools.mcp.listing:MAX_DESCRIPTION|characters}; {archon_mesh.tools.mcp.listing:MAX_SCHEMA_BYTES|bytes}; {archon_mesh.tools.mcp.listing:MAX_SCHEMA_DEPTH}",
        "The description is cut; the tool is left out.",
        ["test_descriptions_schemas_and_names_are_bounded"],
    ),
    Limit(
        "Message of an MCP server; its lines that are no messages",
        "{archon_mesh.tools.mcp.transport:MAX_MESSAGE_BYTES|bytes}; {archon_mesh.tools.mcp.transport:MAX_BAD_LINES}",
        "The connection ends.",
        ["test_server_that_speaks_no_mcp_is_a_typed_error", "test_answer_over_http_is_bounded"],
    ),
    Limit(
        "Time to connect an MCP server and list its tools; of a call; that the server has to end",
        "{archon_mesh.tools.mcp.source:CONNECT_SECONDS|seconds}, `connect_timeout`; {archon_mesh.tools.mcp.source:CALL_SECONDS|seconds}, `timeout`; {archon_mesh.tools.mcp.transport:EXIT_SECONDS|seconds}, and again after SIGTERM",
        "`DEADLINE_EXCEEDED`; SIGKILL.",
        ["test_server_that_speaks_no_mcp_is_a_typed_error"],
    ),
    Limit(
        "Pause before an MCP server is connected again",
        "{archon_mesh.tools.mcp.source:BACKOFF|seconds}, doubled up to {archon_mesh.tools.mcp.source:MAX_BACKOFF|seconds}",
        "Calls fail: `UNAVAILABLE`.",
        ["test_pauses_between_connections_double"],
    ),
    Limit(
        "Questions of an MCP server during a call; a question",
        "{archon_mesh.tools.mcp.questions:MAX_QUESTIONS}; {archon_mesh.tools.mcp.questions:MAX_QUESTION|characters}",
        "Further ones are refused; the question is cut.",
        ["test_questions_of_a_call_are_bounded", "test_long_question_of_a_server_is_cut"],
    ),
    Limit(
        "Calls of all clients of `archon mcp` at the same time",
        "{archon_mesh.tools.mcp.serving.server:MAX_CALLS}",
        "Further calls wait.",
        ["test_calls_of_all_clients_at_the_same_time_are_bounded"],
    ),
    Limit(
        "Prompts of an MCP server; resources and folders; resources in a list",
        "{archon_mesh.tools.mcp.serving.offer:MAX_PROMPTS}; {archon_mesh.tools.mcp.serving.offer:MAX_PROVIDERS}; {archon_mesh.tools.mcp.serving.handlers:MAX_RESOURCES}",
        "`RESOURCE_EXHAUSTED`; further resources are not listed.",
        ["test_prompts_and_resources_of_an_offer_are_bounded", "test_list_of_resources_is_bounded"],
    ),
    Limit(
        "A resource; its URI; a prompt; its messages",
        "{archon_mesh.tools.mcp.serving.resources:MAX_RESOURCE_BYTES|bytes}; {archon_mesh.tools.mcp.serving.resources:MAX_URI|characters}; {archon_mesh.tools.mcp.serving.prompts:MAX_PROMPT_BYTES|bytes}; {archon_mesh.tools.mcp.serving.prompts:MAX_MESSAGES}",
        "An error for the client.",
        ["test_large_resource_and_other_values_are_refused", "test_prompt_of_other_values_or_too_many_is_refused"],
    ),
    Limit(
        "Files of a folder of resources that are listed; entries that are looked at for that",
        "{archon_mesh.tools.mcp.serving.folder:MAX_FILES}; {archon_mesh.tools.mcp.serving.folder:MAX_ENTRIES}",
        "Further files are not listed.",
        ["test_files_and_their_sizes_are_bounded"],
    ),
    Limit(
        "Time of a prompt or a resource; values that complete an argument",
        "{archon_mesh.tools.mcp.serving.functions:CALL_SECONDS|seconds}, `seconds`; {archon_mesh.tools.mcp.serving.functions:MAX_COMPLETIONS}",
        "An error for the client; further values are left out.",
        ["test_function_that_is_late_is_abandoned", "test_arguments_of_prompts_are_completed"],
    ),
    Limit(
        "A log message for an MCP client; the answers of a client between two rounds of a request",
        "{archon_mesh.tools.mcp.serving.client:MAX_LOG_BYTES|bytes}; {archon_mesh.tools.mcp.serving.client:MAX_STATE_BYTES|bytes}",
        "`INVALID_ARGUMENT`; `RESOURCE_EXHAUSTED`",
        ["test_invalid_log_message_is_refused", "test_state_of_a_request_is_sealed_and_bound_to_it"],
    ),
    Limit(
        "MCP clients that listen for changes; subscriptions to resources, and log levels of sessions",
        "{archon_mesh.tools.mcp.serving.changes:MAX_LISTENERS}; {archon_mesh.tools.mcp.serving.changes:MAX_SUBSCRIPTIONS}",
        "Further clients are refused; the oldest is forgotten.",
        ["test_client_that_listens_when_too_many_do_is_refused", "test_oldest_subscription_is_forgotten"],
    ),
]
