"""Limits of model calls."""

from __future__ import annotations

from typing import Final

from tests.unit.docs.limit_rows.limit import Limit

LIMITS: Final[list[Limit]] = [
    Limit(
        "JSON Schema of an output; of a role's output in its registration; in a plan",
        "{archon.output:MAX_SCHEMA_BYTES|bytes}; "
        "{archon_services.registry.api.validation:MAX_OUTPUT_SCHEMA|characters}; {archon.output:MAX_SCHEMA_BYTES|bytes}",
        "`INVALID_ARGUMENT`; the step has none.",
        [
            "test_what_is_no_type_is_refused",
            "test_schema_that_is_too_large_is_refused_by_the_registry",
            "test_schema_of_a_subtask_is_read",
        ],
    ),
    Limit(
        "Repairs of an answer that does not match the output; violations and characters of the answer in the error",
        "{archon_mesh.agent.loop.executor:MAX_REPAIRS}; {archon.output:MAX_VIOLATIONS}, {archon.errors:MAX_ANSWER|characters}",
        "`OUTPUT_MISMATCH`; further ones are left out",
        ["test_second_mismatch_fails_with_text_and_violations", "test_violations_are_bounded"],
    ),
    Limit(
        "References that the check of a typed answer, or of the result of a step, follows",
        "{archon.output:MAX_REFERENCES}",
        "`OUTPUT_MISMATCH`; `RESULT_REFUSED`",
        ["test_check_of_a_schema_that_refers_to_itself_is_bounded"],
    ),
    Limit(
        "Bytes of a whole reply of a model endpoint; of all events of a reply; of an error that are read",
        "{archon_mesh.llm.endpoint_http:MAX_REPLY|bytes}; {archon_mesh.llm.endpoint_http:MAX_STREAM|bytes}; "
        "{archon_mesh.llm.endpoint_http:MAX_ERROR|bytes}",
        "`MessageTooLarge`; the rest of an error is not read",
        ["test_a_reply_without_end_is_ended", "test_an_error_without_end_is_cut"],
    ),
    Limit(
        "Reply in which a typed answer is looked for; JSON values in it",
        "{archon_mesh.llm.structured.read:MAX_REPLY|characters}; {archon_mesh.llm.structured.read:MAX_VALUES}",
        "What comes behind is not read.",
        ["test_hostile_reply_is_a_mismatch"],
    ),
    Limit(
        "A model call without a chunk of the reply",
        "{archon_mesh.llm.base:IDLE_TIMEOUT|seconds}; `idle_timeout` of an agent",
        "The call ends: `DEADLINE_EXCEEDED`.",
        ["test_a_model_that_falls_silent_is_cut_off"],
    ),
    Limit(
        "A model call in all",
        "{archon_mesh.llm.base:CALL_TIMEOUT|seconds}; `timeout` of an agent",
        "The call ends: `DEADLINE_EXCEEDED`.",
        ["test_a_model_that_drips_for_ever_is_cut_off"],
    ),
    Limit(
        "Silence of a model that is not the last of a fallback chain",
        "half of `idle_timeout`",
        "The next model of the chain is asked.",
        ["test_a_silent_client_is_replaced_within_the_idle_timeout"],
    ),
    Limit(
        "Waiting for a rate limit (`RateLimitedModel`, `requests_per_minute`, `tokens_per_minute`)",
        "{archon_mesh.llm.wrappers.rate_limit:MAX_WAIT|seconds}, and the timeout of the call",
        "`RESOURCE_EXHAUSTED` with a delay; in a fallback chain, the next model is asked.",
        [
            "test_a_wait_that_is_too_long_is_refused_with_a_delay",
            "test_a_rate_limited_model_falls_back_instead_of_waiting_long",
        ],
    ),
    Limit(
        "Files of a message to a model, and of a request; their bytes; files that a client remembers as refused",
        "{archon_mesh.llm.media.profile:MAX_FILES}; {archon_mesh.llm.media.profile:MAX_BYTES|bytes}; "
        "{archon_mesh.llm.media.sent_files:MAX_REFUSED}; keys `max_*` of the profile of a server",
        "`INVALID_ARGUMENT`, which names the key; the oldest files of tool results are labels; it forgets all of them.",
        ["test_an_exceeded_limit_is_named", "test_newer_results_take_the_place_of_the_oldest_by_halves"],
    ),
    Limit(
        "Files of the history of an agent",
        "{archon_mesh.agent.loop.old_files:MAX_KEPT|bytes}",
        "The oldest are replaced by their labels, except those of the query.",
        ["test_old_files_of_a_history_become_labels"],
    ),
    Limit(
        "Replies in a cache (`CachedModel`)",
        "{archon_mesh.llm.wrappers.cache:MAX_ENTRIES}; {archon_mesh.llm.wrappers.cache:MAX_BYTES|bytes}",
        "The reply that was used longest ago is dropped; a larger one is not kept.",
        ["test_the_reply_used_longest_ago_is_dropped", "test_a_reply_larger_than_the_cache_is_not_kept"],
    ),
    Limit(
        "A cassette (`RecordingModel`, `ReplayModel`)",
        "{archon_mesh.llm.wrappers.cassette:MAX_BYTES|bytes}",
        "`RESOURCE_EXHAUSTED` when it is written, `INVALID_ARGUMENT` when it is read.",
        ["test_a_cassette_is_bounded"],
    ),
    Limit(
        "A file of prices (`ARCHON_PRICES`)",
        "{archon_mesh.llm.prices:MAX_FILE|bytes}",
        "`INVALID_ARGUMENT` when the model is created",
        ["test_a_file_that_is_missing_or_too_large_is_refused"],
    ),
    Limit(
        "Correction of estimated tokens by what a provider reports",
        "factor {archon_mesh.llm.calibration:LOWEST} to {archon_mesh.llm.calibration:HIGHEST}, from the last "
        "{archon_mesh.llm.calibration:WINDOW} calls of a client",
        "",
        ["test_the_factor_is_bounded", "test_the_newest_calls_count"],
    ),
    Limit(
        "A reply of Anthropic without `max_tokens`",
        "{archon_mesh.llm.anthropic:MAX_TOKENS} tokens",
        "The reply is cut off.",
        ["test_a_history_is_made_to_fit_the_api"],
    ),
    Limit(
        "Model clients that ignore their cancellation",
        "{archon_mesh.llm.deadline:MAX_ABANDONED}; the caller waits {archon_mesh.llm.deadline:GRACE|seconds} for each",
        "Further calls: `RESOURCE_EXHAUSTED` with a delay.",
        ["test_calls_are_refused_while_too_many_do_not_end"],
    ),
    Limit(
        "A reply in the text format; depth of its JSON",
        "{archon_mesh.llm.text_format.parse:MAX_REPLY|characters}; {archon_mesh.llm.text_format.lenient_json:MAX_DEPTH}",
        "The reply cannot be read.",
        ["test_a_reply_above_the_limit_is_refused", "test_a_text_without_json_is_an_error"],
    ),
    Limit(
        "Requests for a reply that can be read, after one that cannot; characters of it that the model sees again",
        "{archon_mesh.llm.text_format.text_tool_model:REPAIRS}; {archon_mesh.llm.text_format.prompt:MAX_QUOTED|characters}",
        "The call fails: `model.format`.",
        ["test_a_model_that_never_keeps_to_the_format_fails_typed"],
    ),
    Limit(
        "Brackets at which JSON is looked for in a text",
        "{archon_mesh.llm.text_format.parse:MAX_CANDIDATES}",
        "The text has no JSON.",
        ["test_json_is_looked_for_at_a_few_brackets_only"],
    ),
]
