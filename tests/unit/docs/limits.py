"""Writes docs/limits.md from the constants in the code: `python -m tests.unit.docs.limits`.

A limit's text names each constant as `{module:expression}`, optionally with a unit: `{module:expression|bytes}`. The
expression is evaluated in the imported module, so that a constant which is moved or renamed fails the test that
compares the page.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).parents[3] / "docs" / "limits.md"
REFERENCE: Final = re.compile(r"\{([\w.]+):([^{}|]+)(?:\|(bytes|seconds|characters))?\}")

HEAD: Final = """# Limits

Everything that waits or is kept has a limit. If a caller exceeds a limit that is temporary, the response is
`RESOURCE_EXHAUSTED` with a delay after which to retry (`RetryInfo`).

This page is written by `python -m tests.unit.docs.limits` from the constants in the code.
"""

TAIL: Final = """
`make soak MINUTES=60` runs a mesh under load, kills an agent every minute, and fails if a run is lost or a process grows.
"""


@dataclass(frozen=True, slots=True)
class Limit:
    """One row: `value` is a text with references to constants, `above` what happens above it; `tests` show it, and are
    not on the page."""

    what: str
    value: str
    above: str
    tests: list[str]


LIMITS: Final[dict[str, list[Limit]]] = {
    "Runs": [
        Limit(
            "Messages between the agents of a run, their bytes, bytes of one; topics of an attempt; messages that one "
            "attempt sends; of them those that wait for the journal at a time",
            "{archon_mesh.engine.decide.messages:MAX_MESSAGES}, "
            "{archon_mesh.engine.decide.messages:MAX_MESSAGES_BYTES|bytes}, "
            "{archon_mesh.engine.decide.messages:MAX_MESSAGE_BYTES|bytes}; "
            "{archon_mesh.engine.decide.messages:MAX_TOPICS}; "
            "{archon_services.orchestrator.sessions.attempts:MAX_SENT}; {archon.agent.pending_calls:MAX_SENDING}",
            "The message is refused with `TOO_MANY_MESSAGES`, or `INVALID_ARGUMENT`; further topics are ignored; the "
            "attempt fails for good; the next one waits.",
            [
                "test_messages_are_bounded_in_count_and_bytes",
                "test_an_attempt_that_floods_its_run_fails_for_good",
                "test_an_attempt_has_a_bounded_number_of_topics",
            ],
        ),
        Limit(
            "Messages of one result of `read_messages`, their characters; its wait; the wait of `request_help`; of "
            "`send_message` and `reply` for the mesh",
            "{archon_mesh.tools.messages.tools:MAX_READ}, {archon_mesh.tools.messages.tools:MAX_READ_CHARACTERS}; "
            "{archon_mesh.tools.messages.tools:MAX_WAIT|seconds}; "
            "{archon_mesh.tools.messages.tools:HELP_SECONDS|seconds} by default; "
            "{archon_mesh.tools.messages.tools:SEND_SECONDS|seconds}",
            "The next call returns the others, a longer text is cut; the result has no messages; the call fails with "
            "`DEADLINE_EXCEEDED`.",
            [
                "test_a_result_is_bounded_in_number_and_characters",
                "test_help_that_does_not_come_is_a_failed_call",
            ],
        ),
        Limit(
            "Messages that wait for one subscriber of a `MessageBus`, and their bytes; dead letters; known ids",
            "{archon_mesh.messages.bus:MAX_WAITING}, {archon_mesh.messages.bus:MAX_WAITING_BYTES|bytes}; "
            "{archon_mesh.messages.bus:MAX_DEAD_LETTERS}; {archon_mesh.messages.bus:MAX_IDS}",
            "The message becomes a dead letter, or is refused if it has no other receiver; the oldest are forgotten.",
            [
                "test_a_subscriber_that_does_not_read_holds_up_no_other",
                "test_inboxes_are_bounded_in_bytes_and_dead_letters_in_count",
            ],
        ),
        Limit(
            "Meshes above a run; tasks of a gateway at a time; runs whose cancellation it tries at a time",
            "{archon.federation.lineage:MAX_MESHES}; {archon.federation.server:MAX_TASKS}; "
            "{archon.federation.gateway:MAX_CANCELLING}",
            "`DELEGATION_TOO_DEEP`; the tasks wait for an instance with a free slot; the run is left to its time limit.",
            ["test_a_chain_of_too_many_meshes_is_refused"],
        ),
        Limit(
            "Tasks of a role that is an A2A agent elsewhere, at a time; questions of one task; bytes of its card; of "
            "all artifacts of a task",
            "{archon_services.agents.a2a.app:MAX_TASKS}; {archon_services.agents.a2a.handler:MAX_ROUNDS}; "
            "{archon_services.agents.a2a.remote:MAX_CARD|bytes}; {archon_services.agents.a2a.folded_task:MAX_ANSWER|bytes}",
            "The tasks wait for an instance with a free slot; the task fails; the agent is not served; the task fails.",
            ["test_artifacts_of_an_endless_agent_are_bounded"],
        ),
        Limit(
            "Push notification configs of an A2A task; webhooks that one replica delivers to; a wait of SendMessage; "
            "runs that are read for a page of tasks",
            "{archon_services.gateway.a2a.push_store:MAX_CONFIGS}; "
            "{archon_services.gateway.a2a.push_delivery:MAX_DELIVERIES}; "
            "{archon_services.gateway.a2a.handler:WAIT|seconds}; {archon_services.gateway.a2a.runs:READS}",
            "`RESOURCE_EXHAUSTED`; they wait for a place, or another replica; the task as it is; the page has fewer.",
            ["test_configs_are_created_listed_and_deleted"],
        ),
        Limit(
            "Tools of the mesh for MCP clients, characters of a name, of a description, and bytes of a schema; files of a "
            "call; a call that waits, and before it is a task; a call of a shared tool",
            "{archon_services.gateway.mcp.catalogue:MAX_TOOLS}; "
            "{archon_services.gateway.mcp.catalogue:MAX_NAME}; "
            "{archon_services.gateway.mcp.catalogue:MAX_DESCRIPTION|characters}; "
            "{archon_services.gateway.mcp.catalogue:MAX_SCHEMA|bytes}; "
            "{archon_services.gateway.mcp.inputs:MAX_FILES}; "
            "{archon_services.gateway.mcp.follow_run:WAIT|seconds}; "
            "{archon_services.gateway.mcp.calls:AT_ONCE|seconds}; "
            "{archon_services.gateway.mcp.lent_tools:SECONDS|seconds}",
            "Further ones are left out; longer ones are cut, a larger schema is taken for none; an error result; the result "
            "says that the run goes on; an error result.",
            ["test_names_and_descriptions_of_tools_are_bounded"],
        ),
        Limit(
            "An MCP session, and the address of a secret question; messages that wait for an MCP client, and for how "
            "long; runs that a stream listens to; runs that are cancelled for callers who are gone",
            "{archon_services.gateway.mcp.sessions:LASTS|seconds}; "
            "{archon_services.gateway.mcp.secret_page:LASTS|seconds}; "
            "{archon_services.gateway.mcp.exchange:MAX_WAITING}; "
            "{archon_services.gateway.mcp.exchange:SEND_SECONDS|seconds}; "
            "{archon_services.gateway.mcp.listening:MAX_RUNS}; "
            "{archon_services.gateway.mcp.parts:MAX_CANCELLING}",
            "404, the client begins another one; it is refused; the run is not followed meanwhile, and the client resumes; "
            "an error; further runs go on.",
            ["test_a_client_that_does_not_read_holds_up_its_own_stream_alone"],
        ),
        Limit(
            "Messages, entries of `context`, tools and answers of an AG-UI input; its entries of `forwardedProps`; earlier "
            "messages that go with a goal, and their characters; tasks in the state of a front end",
            "{archon_services.gateway.agui.inputs:MAX_MESSAGES}, {archon_services.gateway.agui.inputs:MAX_CONTEXT}, "
            "{archon_services.gateway.agui.inputs:MAX_TOOLS}, {archon_services.gateway.agui.inputs:MAX_RESUME}; "
            "{archon_services.gateway.agui.goals:MAX_METADATA}; {archon_services.gateway.agui.goals:MAX_HISTORY}, "
            "{archon_services.gateway.agui.goals:MAX_HISTORY_TEXT}; "
            "{archon_services.gateway.agui.task_state_document:MAX_TASKS}",
            "`INVALID_ARGUMENT`; older ones are left out; tasks that have ended are left out.",
            ["test_an_invalid_input_is_refused_with_its_field", "test_the_state_holds_a_bounded_number_of_tasks"],
        ),
        Limit(
            "Runs of another mesh in progress that a search for orphans looks at; those whose parents it remembers; "
            "attempts there that are shown at once, and per second",
            "{archon.federation.orphans:MAX_LISTED}; {archon.federation.orphans:MAX_KNOWN}; "
            "{archon.federation.narration:BURST}, {archon.federation.narration:RATE}",
            "Older ones end with their time limit; it asks for them again; they are not shown.",
            ["test_orphans_of_ended_tasks_are_found_and_cancelled", "test_progress_of_a_busy_run_is_bounded"],
        ),
        Limit(
            "Notices that wait for a channel to people; tries of one, seconds of a try; characters of its text",
            "{archon_services.orchestrator.channels.notifier:MAX_QUEUED}, "
            "{archon_services.orchestrator.channels.notifier:MAX_QUEUED_BYTES|bytes}; "
            "{archon_services.orchestrator.channels.notifier:TRIES}, "
            "{archon_services.orchestrator.channels.notifier:TIMEOUT|seconds}; "
            "{archon_services.orchestrator.channels.notice:MAX_TEXT|characters}",
            "The oldest is dropped; it is given up; the text is cut. `archon inbox` lists the question all the same.",
            ["test_the_queue_of_a_channel_is_bounded", "test_a_notice_that_fails_is_given_up_and_harms_no_other"],
        ),
        Limit(
            "What a mail server sends for a mail; of the answer of a webhook only the status is read",
            "{archon_services.orchestrator.channels.mail:MAX_RECEIVED|bytes}",
            "The try fails.",
            ["test_what_a_mail_server_sends_is_bounded", "test_the_body_of_an_answer_is_not_read"],
        ),
        Limit(
            "Questions of a task to people; of a planner in place of a plan",
            "{archon_mesh.engine.decide.approval:MAX_QUESTIONS}; "
            "{archon_services.orchestrator.runs.turn.plan_reply:MAX_CLARIFICATIONS}",
            "The task fails, and rules ask no more about it; the reply is refused as no plan.",
            ["test_a_question_without_id_or_above_the_limit_fails"],
        ),
        Limit(
            "Rules; approvers of a rule; time to answer; a default answer",
            "{archon_mesh.core.people.rule:MAX_RULES}; {archon_mesh.core.people.terms:MAX_APPROVERS}; "
            "{archon_mesh.core.people.terms:MAX_TIMEOUT|seconds}; {archon_mesh.core.people.terms:MAX_DEFAULT|characters}",
            "`INVALID_ARGUMENT`; those of an agent's question are cut.",
            ["test_a_rule_that_makes_no_sense_names_its_field"],
        ),
        Limit(
            "Checkpoint of an agent that asks a person",
            "{archon_mesh.node.checkpoint:MAX_QUESTION_CHECKPOINT|bytes}",
            "The task fails: `FRAME_TOO_LARGE`.",
            ["test_a_checkpoint_that_is_too_large_is_refused"],
        ),
        Limit(
            "A page of questions; an answer that is shown with the question about it; closed questions of a run in a response",
            "{archon_services.orchestrator.api.questions:MAX_PAGE_BYTES|bytes}; "
            "{archon_services.orchestrator.convert.run_view:MAX_SHOWN_BYTES|bytes}; "
            "{archon_services.orchestrator.convert.run_view:MAX_CLOSED}",
            "The next page has the rest; the rest of the answer, and older questions, are left out.",
            ["test_the_questions_of_many_runs_are_listed_in_pages"],
        ),
        Limit(
            "Runs in progress",
            "{archon_services.orchestrator.runs.limits:MAX_RUNS}; setting `max_runs`",
            "`RESOURCE_EXHAUSTED` with a delay",
            ["test_a_submit_above_max_runs_is_refused_with_a_delay"],
        ),
        Limit(
            "Tasks that a fork names to execute again; answers, and inputs that it edits",
            "{archon_services.orchestrator.api.fork:MAX_CHANGES}; {archon_services.orchestrator.api.fork:MAX_CHANGES}, "
            "{archon_services.orchestrator.api.fork:MAX_INPUTS}",
            "`INVALID_ARGUMENT`",
            ["test_a_fork_with_too_many_changes_is_refused"],
        ),
        Limit(
            "Runs that are paused, or wait for a person; they do not count as in progress",
            "{archon_services.orchestrator.runs.limits:MAX_PAUSED}; setting `max_paused_runs`",
            "PauseRun: `RESOURCE_EXHAUSTED` with a delay; further runs that wait for a person count as in progress.",
            ["test_a_pause_above_max_paused_runs_is_refused_with_a_delay", "test_paused_runs_leave_room_for_others"],
        ),
        Limit(
            "Time that a run is paused, or waits for a person, at a stretch",
            "7 days; setting `pause_timeout`",
            "The run fails: `PAUSE_EXPIRED`.",
            ["test_a_run_that_is_paused_for_too_long_fails"],
        ),
        Limit(
            "Journal of a run: events, inputs and recorded calls",
            "{archon_services.orchestrator.runs.limits:MAX_JOURNAL_BYTES|bytes}; setting `max_run_bytes`",
            "The run fails: `RUN_TOO_LARGE`.",
            ["test_a_run_whose_journal_is_too_large_fails"],
        ),
        Limit(
            "Ended runs that stay in memory; bytes of their journals",
            "{archon_services.orchestrator.runs.states.ended_runs:MAX_ENDED}; "
            "{archon_services.orchestrator.runs.states.ended_runs:MAX_ENDED_BYTES|bytes}",
            "Those that ended first are read from the journal.",
            ["test_ended_runs_are_kept_up_to_a_number_and_bytes"],
        ),
        Limit(
            "Events of a run",
            "{archon_mesh.engine.decide.event_limit:MAX_EVENTS}",
            "The run fails: `TOO_MANY_EVENTS`.",
            ["test_durability_7_a_run_at_its_event_limit_fails_typed"],
        ),
        Limit(
            "Attempts of a task that end with the loss of the process",
            "{archon_mesh.engine.decide.recovery:RECOVERY[Kind.LOST].tries}",
            "The task fails: `POISONED`.",
            ["test_durability_20_a_task_is_poisoned_after_three_losses"],
        ),
        Limit(
            "Rejects of a task",
            "{archon_mesh.engine.decide.recovery:RECOVERY[Kind.REFUSED].tries}",
            "The task fails.",
            ["test_rejects_are_not_losses_and_are_limited"],
        ),
        Limit(
            "Attempts of a task that are given back, or rejected by instances that stop",
            "{archon_mesh.engine.decide.recovery:RECOVERY[Kind.RETURNED].tries}",
            "The task fails.",
            ["test_a_task_that_is_given_back_endlessly_fails"],
        ),
        Limit(
            "Attempts whose turn was stored second",
            "{archon_mesh.engine.decide.recovery:RECOVERY[Kind.CONFLICT].tries}",
            "The task fails: `CONVERSATION_MOVED`.",
            ["test_a_task_whose_turn_is_always_second_fails_with_a_reason"],
        ),
        Limit(
            "Lost and failed attempts of a run",
            "{archon_mesh.engine.decide.recovery:ERROR_BUDGET}",
            "The run fails: `ERROR_BUDGET_EXHAUSTED`.",
            ["test_a_run_recovers_within_its_error_budget"],
        ),
        Limit(
            "Failures of one class in a minute, if most attempts fail (those of tools and requests do not count)",
            "{archon_services.orchestrator.runs.limits:MAX_FAILURES}; setting `max_failures`",
            "New runs are refused: `RESOURCE_EXHAUSTED` / `ERROR_BUDGET_EXHAUSTED` with a delay.",
            ["test_a_submit_is_refused_while_most_attempts_fail"],
        ),
        Limit(
            "Claims of a run without progress",
            "{archon_services.orchestrator.runs.manager:MAX_STALLED}",
            "The run fails: `QUARANTINED`.",
            ["test_durability_14_a_run_claimed_in_vain_is_quarantined"],
        ),
        Limit(
            "Delegations of a task",
            "{archon_mesh.engine.decide.delegation:MAX_DELEGATIONS}",
            "The delegation fails: `TOO_MANY_DELEGATIONS`.",
            ["test_contract_rule_8_delegations_of_a_task_are_bounded"],
        ),
        Limit(
            "Steps of a plan; their dependencies together",
            "{archon_mesh.engine.plan.faults:MAX_PLAN_SUBTASKS}; "
            "{archon_mesh.engine.decide.plan_reply:MAX_DEPENDENCIES}",
            "The reply is refused once; then steps are merged, and dependencies dropped.",
            ["test_a_plan_is_bounded"],
        ),
        Limit(
            "Plans that an orchestrator has made without a run at a time; instances of a planner that are asked for one",
            "{archon_services.orchestrator.api.plan_preview:MAX_PREVIEWS}; "
            "{archon_services.orchestrator.api.plan_preview:MAX_ASKED}",
            "`RESOURCE_EXHAUSTED`; `UNAVAILABLE`.",
            ["test_plans_that_are_made_at_a_time_are_bounded"],
        ),
        Limit(
            "Time for such a plan without a deadline of the caller",
            "{archon_services.orchestrator.api.plan_preview:TIMEOUT|seconds}",
            "`DEADLINE_EXCEEDED`.",
            ["test_a_silent_planner_ends_at_the_deadline"],
        ),
        Limit(
            "Roles and instances with a track record, in an orchestrator; stored",
            "{archon_services.orchestrator.track_records.records:MAX_TALLIES}; "
            "{archon_services.orchestrator.journal.track_records:MAX_TRACK_RECORDS}",
            "The record of the instance that has worked least recently is dropped.",
            ["test_the_number_of_tallies_is_bounded", "test_the_oldest_rows_are_deleted_above_the_bound"],
        ),
        Limit(
            "Identities whose use of quotas is counted by itself on a day; days that are kept; largest count",
            "{archon_services.orchestrator.quotas.daily_counts:MAX_IDENTITIES}; "
            "{archon_services.orchestrator.quotas.daily_counts:KEPT_DAYS}; "
            "{archon_services.orchestrator.quotas.daily_counts:MAX_COUNT}",
            "Further ones count for their tenants alone; the oldest day is deleted; the count stays there.",
            [
                "test_days_and_identities_are_bounded",
                "test_a_restart_goes_on_with_the_counts_of_the_day",
                "test_counts_stay_within_the_columns_of_a_database",
            ],
        ),
        Limit(
            "Runs, streams, and runs, bytes, tokens and dollars of a day, of a tenant and of an identity",
            "as the file of quotas says: setting `quotas`",
            "`RESOURCE_EXHAUSTED` / `QUOTA_EXCEEDED` with a delay.",
            [
                "test_runs_under_way_are_refused_by_each_way_to_begin_one",
                "test_runs_of_a_day_survive_a_restart_and_end_with_it",
                "test_amounts_of_a_day_refuse_the_run_after_them",
                "test_streams_are_refused_until_one_ends",
                "test_a_quota_of_the_other_mesh_refuses_its_task",
            ],
        ),
        Limit(
            "Tenants, and identities, in a file of quotas; characters of an identity; largest limit",
            "{archon_services.common.quotas.file:MAX_ENTRIES}; {archon_services.common.quotas.file:MAX_NAME}; "
            "{archon_services.common.quotas.file:MAX_LIMIT}",
            "The service does not start: `INVALID_ARGUMENT` with file, line and key.",
            ["test_a_mistake_names_file_line_and_key"],
        ),
        Limit(
            "An entry of the audit log; entries that a journal in memory keeps; the registry; entries that are linked at once",
            "{archon.history.audit:MAX_ENTRY|bytes}; "
            "{archon_services.orchestrator.journal.memory.chains:MAX_ENTRIES}; "
            "{archon_services.registry.audit.log:MAX_ENTRIES}; "
            "{archon_services.orchestrator.audit.linker:GROUP}",
            "its details are left out; the oldest are removed, up to a seal; the others follow",
            ["test_an_entry_has_a_bounded_size"],
        ),
        Limit(
            "Steps and seconds until a run that goes on is sealed again",
            "{archon_services.orchestrator.runs.turn.chain:SEAL_STEPS}; "
            "{archon_services.orchestrator.runs.turn.chain:SEAL_SECONDS|seconds}",
            "its next step is sealed",
            ["test_a_long_run_is_sealed_now_and_then"],
        ),
        Limit(
            "Ends of attempts that wait to be added to a track record",
            "{archon_services.orchestrator.track_records.records:MAX_PENDING}",
            "They are added at once.",
            ["test_observations_wait_in_a_bounded_list"],
        ),
        Limit(
            "Repairs that a planner reports; characters of one",
            "{archon_mesh.planning.parse:MAX_CHANGES}; {archon_mesh.planning.parse:MAX_CHANGE}",
            "Further ones are left out; it is shortened.",
            ["test_repairs_that_a_planner_reports_are_bounded"],
        ),
        Limit(
            "Faults that the refusal of a plan names",
            "{archon_mesh.engine.decide.plan_reply:MAX_FAULTS}",
            "Further ones are left out.",
            ["test_a_plan_is_bounded"],
        ),
        Limit(
            "Replans of a run",
            "{archon_mesh.engine.plan.replan:MAX_REPLANS}",
            "The run fails: `PLAN_FAILED`.",
            ["test_after_the_last_replan_the_run_fails_and_names_the_steps"],
        ),
        Limit(
            "Expansions of a plan",
            "{archon_mesh.engine.plan.expand:MAX_EXPANSIONS}",
            "The run fails: `PLAN_FAILED`; in a process: `PlanFailed`.",
            ["test_expansions_are_bounded"],
        ),
        Limit(
            "Request to a planner: roles with their tools; results of the plan before",
            "{archon_services.orchestrator.convert.plan:MAX_TARGETS_BYTES|bytes}; "
            "{archon_services.orchestrator.convert.plan:MAX_RESULT_BYTES|bytes}",
            "Schemas, then descriptions, are left out; further results are left out.",
            ["test_the_targets_of_a_planner_are_bounded", "test_the_results_for_a_replan_are_bounded"],
        ),
        Limit(
            "Text of an edited plan",
            "{archon_services.orchestrator.api.validation:MAX_PLAN_BYTES|bytes}",
            "`MESSAGE_TOO_LARGE`",
            ["test_an_edited_plan_is_bounded"],
        ),
        Limit(
            "Depth of delegations",
            "{archon_mesh.engine.decide.budget:MAX_DEPTH}, or the budget's `max_depth`",
            "The delegation fails: `DELEGATION_TOO_DEEP`.",
            ["test_contract_rule_8_the_budget_limits_the_depth"],
        ),
        Limit(
            "Commands that wait for one run",
            "{archon_services.orchestrator.runs.run_inbox:MAX_INBOX}; frames of agents are not counted, credit and bytes in flight bound them",
            "`RESOURCE_EXHAUSTED` with a delay",
            ["test_commands_of_a_run_are_bounded_and_frames_are_not"],
        ),
        Limit(
            "A goal",
            "{archon.wire:MAX_CHECKED_BYTES|bytes}",
            "`MESSAGE_TOO_LARGE`",
            ["test_a_5_mb_goal_over_bare_stubs_is_a_typed_error"],
        ),
        Limit(
            "Shared memory of the session for the roles of one run",
            "{archon_services.orchestrator.shared_memory.recall:MAX_BYTES|bytes}",
            "`MESSAGE_TOO_LARGE`",
            ["test_a_submit_to_a_session_with_too_many_items_is_refused"],
        ),
        Limit(
            "History that a stateful role receives",
            "{archon_services.orchestrator.journal.session_history:HISTORY_BYTES|bytes}, {archon_services.orchestrator.journal.session_history:HISTORY_TURNS} turns",
            "The newest turns are delivered.",
            ["test_of_a_long_conversation_the_newest_turns_are_read", "test_of_many_short_turns_only_so_many_are_read"],
        ),
        Limit(
            "What one result adds to a conversation",
            "{archon.agent.values:MAX_TURN|bytes}",
            "`MESSAGE_TOO_LARGE`; the middle of a plain answer is left out.",
            [
                "test_a_turn_that_is_too_large_fails_in_a_stateful_role_only",
                "test_of_a_long_question_or_answer_the_middle_is_left_out",
            ],
        ),
        Limit(
            "Waiting for another turn of the conversation",
            "{archon_services.orchestrator.runs.turn.session_history:PATIENCE|seconds}",
            "The task is dispatched without waiting further.",
            ["test_a_task_waits_for_another_turn_for_a_limited_time"],
        ),
        Limit(
            "A run in a response",
            "{archon_services.orchestrator.convert.run_view:MAX_RUN_BYTES|bytes}",
            "`MESSAGE_TOO_LARGE` from GetRun; responses of other calls are `truncated`; its watch returns each result in "
            "an event of its own.",
            [
                "test_large_results_are_sent_in_several_messages",
                "test_a_command_for_a_large_run_succeeds_with_a_truncated_run",
            ],
        ),
        Limit(
            "A page of a list",
            "{archon_services.common.paging:MAX_PAGE}",
            "`INVALID_ARGUMENT`",
            ["test_runs_are_listed_newest_first_in_pages"],
        ),
        Limit(
            "Finished runs",
            'compacted after {archon_services.orchestrator.settings:OrchestratorSettings.model_fields["compact_after"].default|seconds} (`compact_after`), deleted after {archon_services.orchestrator.settings:OrchestratorSettings.model_fields["delete_after"].default|seconds} (`delete_after`)',
            "A watch answers `RUN_EXPIRED`, then `UNKNOWN_RUN`.",
            ["test_durability_7_an_ended_run_is_compacted_and_then_deleted"],
        ),
        Limit(
            "Runs of a sweep of the retention whose details are kept",
            "{archon_services.orchestrator.retention.sweep:MAX_KEPT}",
            "The next sweep goes on behind them.",
            ["test_a_sweep_is_bounded_and_the_next_one_goes_on"],
        ),
        Limit(
            "Text to search runs for; runs and bytes that a page looks through; bytes of a submit that are searched",
            "{archon_services.orchestrator.api.run_search:MAX_TEXT|characters}; "
            "{archon_services.orchestrator.api.run_search:MAX_SEARCHED}; "
            "{archon_services.orchestrator.api.run_search:MAX_READ_BYTES|bytes}; "
            "{archon_services.orchestrator.journal.page:OPENING_BYTES|bytes}",
            "`INVALID_ARGUMENT`; the page ends, and has a token for the next one.",
            ["test_runs_are_found_by_text_and_time"],
        ),
        Limit(
            "Marks of a run",
            "{archon_services.orchestrator.journal.retained:MAX_MARKS}",
            "`RESOURCE_EXHAUSTED`",
            ["test_marks_replace_the_same_identity_and_go_with_the_run"],
        ),
        Limit(
            "Hooks of a tenant; the run of one; the body of a delivery, its levels; deliveries that are listed; "
            "signatures of a delivery that are compared",
            "{archon_services.orchestrator.api.hooks:MAX_HOOKS}; "
            "{archon_services.orchestrator.api.schedule_validation:MAX_RUN_BYTES|bytes}; "
            "{archon_services.orchestrator.hooks.hook:MAX_BODY|bytes}, "
            "{archon_services.orchestrator.hooks.content:MAX_DEPTH}; "
            "{archon_services.orchestrator.journal.triggers:MAX_FIRES}; "
            "{archon_services.orchestrator.hooks.signatures:MAX_SIGNATURES}",
            "`RESOURCE_EXHAUSTED`; `MESSAGE_TOO_LARGE`; `MESSAGE_TOO_LARGE` with HTTP status 413, `INVALID_ARGUMENT`; the "
            "oldest are deleted; further ones do not count.",
            [
                "test_a_large_body_is_413_and_a_chunked_one_is_read",
                "test_the_depth_of_a_body_is_bounded",
                "test_one_of_several_signatures_is_enough_up_to_a_bound",
            ],
        ),
        Limit(
            "Deliveries a minute that an orchestrator takes of a hook, if it does not say how many",
            "{archon_services.orchestrator.hooks.hook:PER_MINUTE}",
            "`TOO_MANY_REQUESTS`, with `Retry-After`; deliveries that came before do not count.",
            ["test_a_hook_takes_so_many_and_repeats_do_not_count"],
        ),
        Limit(
            "Schedules of a tenant; the run of one; fires that are kept, that wait, and runs in progress of one",
            "{archon_services.orchestrator.api.schedules:MAX_SCHEDULES}; "
            "{archon_services.orchestrator.api.schedule_validation:MAX_RUN_BYTES|bytes}; "
            "{archon_services.orchestrator.journal.triggers:MAX_FIRES}, "
            "{archon_services.orchestrator.schedules.schedule:MAX_WAITING}, "
            "{archon_services.orchestrator.schedules.schedule:MAX_RUNNING}",
            "`RESOURCE_EXHAUSTED`; `MESSAGE_TOO_LARGE`; the oldest fires are deleted, further ones are skipped.",
            [
                "test_names_sizes_and_doubles_are_refused",
                "test_fires_are_listed_newest_first_and_bounded",
                "test_runs_at_once_are_bounded_when_all_are_allowed",
            ],
        ),
        Limit(
            "Learned weights of a tenant",
            "{archon_services.orchestrator.learning.weights:MAX_SUBJECTS} subjects, "
            "{archon_services.orchestrator.journal.learning:MAX_VERSIONS} versions",
            "Subjects with the least evidence, and the oldest versions, are dropped.",
            ["test_evidence_is_bounded_and_the_least_is_dropped", "test_versions_are_listed_newest_first_and_bounded"],
        ),
        Limit(
            "What a sweep of the retention compacts",
            "all that is due",
            "",
            ["test_durability_7_one_sweep_covers_all_runs_that_are_due"],
        ),
    ],
    "Watches": [
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
    ],
    "Stores": [
        Limit(
            "Work queued for PostgreSQL",
            "{archon_services.postgres.group_commit:MAX_WAITING}; {archon_services.postgres.connections:DEADLINE|seconds}",
            "`RESOURCE_EXHAUSTED` with a delay; `UNAVAILABLE` with a delay",
            [
                "test_the_queue_for_the_database_has_a_bound",
                "test_a_server_that_freezes_for_long_is_unavailable",
            ],
        ),
        Limit(
            "Connections of an orchestrator to PostgreSQL",
            "8",
            "Requests wait.",
            ["test_an_orchestrator_takes_eight_connections_at_most"],
        ),
        Limit(
            "Work queued for the SQLite writer",
            "{archon_services.common.sqlite_writer:MAX_WAITING}",
            "`RESOURCE_EXHAUSTED` with a delay",
            ["test_the_queue_of_writes_has_a_bound"],
        ),
        Limit(
            "The disk",
            "its size",
            "`RESOURCE_EXHAUSTED` with a delay; results stay with their agents.",
            [
                "test_durability_5_a_full_disk_refuses_until_there_is_room",
                "test_a_full_disk_refuses_steps_until_there_is_room",
            ],
        ),
    ],
    "Sessions with agents": [
        Limit(
            "Sessions",
            "one per instance that is registered or has work",
            "The session ends.",
            ["test_a_dead_session_ends_when_it_has_no_work"],
        ),
        Limit(
            "A frame of an agent, a message",
            "{archon.wire:MAX_CHECKED_BYTES|bytes}, {archon.channel:MAX_AGENT_BYTES|bytes}",
            "The task fails: `FRAME_TOO_LARGE`; above the second, all tasks of the session. A record is kept without its "
            "content.",
            [
                "test_a_frame_above_the_limit_fails_its_task_typed",
                "test_a_record_above_the_limit_is_kept_without_its_content",
            ],
        ),
        Limit(
            "Agents that are attached to one orchestrator; their streams that wait for a session, of one instance",
            "{archon_services.orchestrator.attach.relay:MAX_INSTANCES}; "
            "{archon_services.orchestrator.attach.instance:MAX_SPARES}",
            "`Attach` is refused with a delay; the oldest stream ends with `SESSION_REPLACED`.",
            [
                "test_agents_that_attach_above_the_limit_are_refused",
                "test_the_oldest_of_too_many_spare_streams_ends",
            ],
        ),
        Limit(
            "Calls of one attached agent that are relayed at a time, and the bytes of their requests; of all",
            "{archon_services.orchestrator.attach.call_load:MAX_CALLS}, "
            "{archon_services.orchestrator.attach.call_load:MAX_BYTES|bytes}; "
            "{archon_services.orchestrator.attach.call_load:MAX_CALLS_OF_ALL}, "
            "{archon_services.orchestrator.attach.call_load:MAX_BYTES_OF_ALL|bytes}",
            "The call is refused with a delay, and the agent has not received it.",
            [
                "test_calls_above_the_limit_are_refused_and_sessions_go_on",
                "test_the_bytes_of_requests_that_are_relayed_are_bounded",
            ],
        ),
        Limit(
            "A request or response of a relayed call; the time of one without a deadline",
            "{archon.channel:MAX_RELAYED_BYTES|bytes}; {archon_services.orchestrator.attach.calls:MAX_SECONDS|seconds}",
            "The call ends with `MESSAGE_TOO_LARGE`, or `DEADLINE_EXCEEDED`.",
            [
                "test_the_bytes_of_requests_that_are_relayed_are_bounded",
                "test_an_agent_that_does_not_answer_costs_the_caller_its_own_time",
            ],
        ),
        Limit(
            "Bytes of an instance's frames that are not durable yet; of all instances",
            "{archon_services.orchestrator.sessions.in_flight:MAX_SESSION_BYTES|bytes}; "
            "{archon_services.orchestrator.sessions.in_flight:MAX_PROCESS_BYTES|bytes}",
            "The stream of the instance is not read; above half of the second, each instance has an equal share.",
            [
                "test_an_agent_that_outpaces_the_store_is_not_read",
                "test_above_half_of_the_process_limit_a_session_may_hold_its_share",
            ],
        ),
        Limit(
            "Records that wait for the frame that they precede",
            "{archon_services.orchestrator.sessions.attempts:RECORDS_BYTES|bytes}, "
            "{archon_services.orchestrator.sessions.attempts:MAX_RECORDS} per attempt, "
            "{archon_services.orchestrator.sessions.attempts:RECORDS_WITHIN|seconds}",
            "They are stored ahead of it; those of a run that is not driven here are dropped.",
            [
                "test_many_records_are_stored_ahead_of_the_frame_that_they_precede",
                "test_records_of_an_attempt_that_goes_on_are_stored_soon",
                "test_records_of_an_unknown_run_are_not_held",
            ],
        ),
        Limit(
            "Inputs of agents in one step",
            "{archon_services.orchestrator.runs.run_inbox:MAX_STEP_BYTES|bytes}",
            "The next step takes the rest; of several checkpoints of an attempt, the newest is stored.",
            ["test_an_agent_that_outpaces_the_store_is_not_read"],
        ),
        Limit(
            "Streams to instances that did not answer the last time",
            "{archon_services.orchestrator.sessions.dials:MAX_REDIALLING} at a time, each for at least "
            "{archon_services.orchestrator.sessions.dials:REDIAL_PLACE|seconds} if it fails; a pause of up to "
            "{archon_services.orchestrator.sessions.session:MAX_REDIAL|seconds}",
            "Further ones wait, behind the first streams of other instances; a new registration ends the pause.",
            [
                "test_failures_per_second_are_bounded",
                "test_pauses_grow_once_the_resume_window_is_over",
                "test_only_the_first_dial_waits_with_the_first_dials_of_others",
                "test_an_instance_that_registers_anew_is_dialled_at_once",
            ],
        ),
        Limit(
            "Sessions that open for the first time at a time",
            "{archon_services.orchestrator.sessions.dials:MAX_OPENING}, each for at least "
            "{archon_services.orchestrator.sessions.dials:FIRST_PLACE|seconds} if it fails",
            "Further ones wait, the newest first.",
            [
                "test_many_instances_open_a_bounded_number_at_a_time",
                "test_the_newest_first_dial_gets_the_next_place",
            ],
        ),
        Limit(
            "Connections that find out whether an instance answers at all",
            "{archon_services.orchestrator.sessions.dials:MAX_GREETINGS} at a time, each for at least "
            "{archon_services.orchestrator.sessions.dials:FIRST_GREETING_PLACE|seconds} if it fails; as many repeated "
            "ones, for {archon_services.orchestrator.sessions.dials:GREETING_PLACE|seconds}",
            "Further ones wait: those that have answered before first, then those with the fewest failures.",
            [
                "test_failures_per_second_are_bounded",
                "test_dials_to_many_dead_instances_are_bounded",
            ],
        ),
        Limit(
            "Sessions whose loads are compared for a placement",
            "{archon_services.orchestrator.sessions.role_index:MAX_COMPARED}",
            "The next ones in turn are compared.",
            ["test_a_placement_among_many_sessions_compares_a_few"],
        ),
        Limit(
            "Sessions whose factors are computed at once from their records",
            "{archon_services.orchestrator.sessions.record_factors:MAX_SESSIONS}",
            "The next ones follow a second later.",
            ["test_factors_are_computed_for_some_sessions_at_a_time"],
        ),
        Limit(
            "Compared instances that are stored with a dispatch",
            "{archon_services.orchestrator.sessions.role_index:MAX_CANDIDATES}",
            "The further ones are counted only.",
            ["test_a_choice_by_record_shows_the_instances_compared"],
        ),
        Limit(
            "Lost attempts remembered per session",
            "{archon_services.orchestrator.sessions.attempts:MAX_STALE}",
            "The oldest is forgotten.",
            ["test_remembered_lost_attempts_are_bounded"],
        ),
        Limit(
            "Tasks at an instance",
            "its credit window",
            "Tasks wait at the orchestrator; else a `reject` with a delay.",
            [
                "test_contract_rule_2_tasks_above_the_credit_wait_visibly",
                "test_a_task_above_capacity_is_rejected_with_a_delay",
            ],
        ),
        Limit(
            "Results parked at an agent",
            "{archon.agent.attempt_table:MAX_PARKED_BYTES|bytes}; `park_ttl`",
            "The agent grants no credit; the result is dropped.",
            [
                "test_durability_19_full_parking_gives_no_credit",
                "test_durability_19_a_result_expires_after_its_park_ttl",
            ],
        ),
        Limit(
            "Frames of an attempt that are not acknowledged",
            "{archon.agent.attempt:MAX_UNACKED|bytes}",
            "Checkpoints are held back; of those only the last is kept.",
            ["test_of_unacked_checkpoints_only_the_last_waits_for_room"],
        ),
        Limit(
            "Tasks and runs that an agent remembers after their end",
            "{archon.agent.attempt_table:MAX_OVER}, {archon.agent.attempt_table:MAX_EPOCHS}",
            "The oldest is forgotten.",
            ["test_the_memory_of_finished_tasks_and_runs_is_bounded"],
        ),
        Limit(
            "Frames queued on a stream",
            "{archon.frames:FrameQueue.__init__.__kwdefaults__['max_droppable']} deltas; "
            "{archon.frames:FrameQueue.__init__.__kwdefaults__['max_waiting']} in all",
            "Deltas are dropped; the stream ends, its tasks stay.",
            [
                "test_contract_rule_10_only_deltas_over_the_bound_are_dropped",
                "test_a_peer_that_never_reads_loses_the_stream",
            ],
        ),
        Limit(
            "A stream without Open",
            "{archon.agent.session:OPEN_TIMEOUT|seconds}",
            "The stream ends.",
            ["test_a_stream_without_open_does_not_stay"],
        ),
        Limit(
            "RunTask calls at an agent",
            "the agent's capacity",
            "`RESOURCE_EXHAUSTED` with a delay",
            ["test_above_capacity_a_call_is_refused_until_a_slot_is_free"],
        ),
    ],
    "Callers": [
        Limit(
            "Metadata of a call; characters of a token",
            "{archon.channel:MAX_METADATA_BYTES|bytes}; {archon.security.tokens:MAX_TOKEN}",
            "The call fails with `RESOURCE_EXHAUSTED`; the token is refused.",
            ["test_a_token_of_the_largest_size_passes_each_time", "test_a_token_with_too_many_groups_is_told_so"],
        ),
        Limit(
            "An answer of an OpenID provider; its time; keys of it that are used",
            "{archon.security.openid.http:MAX_BYTES|bytes}; {archon.security.openid.http:SECONDS|seconds}; "
            "{archon.security.openid.key_set:MAX_KEYS}",
            "The keys stay as they are; further keys are left out.",
            ["test_a_faulty_provider_costs_its_own_tokens_alone", "test_further_keys_of_a_set_are_left_out"],
        ),
        Limit(
            "Time between two looks for keys that calls ask for; unknown keys that are remembered; time for which keys are "
            "used while the provider is down",
            "{archon.security.openid.provider:ASK_AGAIN|seconds}; {archon.security.openid.provider:MAX_ASKED}; "
            "{archon.security.openid.provider:KEPT|seconds}",
            "`UNAVAILABLE` with a delay; the oldest is forgotten.",
            [
                "test_an_unknown_key_is_asked_for_and_then_refused",
                "test_unknown_keys_are_remembered_in_a_bounded_number",
                "test_keys_stay_in_use_while_the_provider_is_down",
            ],
        ),
    ],
    "Registry": [
        Limit(
            "Instances",
            "{archon_services.registry.domain.capacity:MAX_INSTANCES}; setting `max_instances`",
            "`RESOURCE_EXHAUSTED` with a delay; a registered instance renews.",
            ["test_an_instance_above_the_bound_of_the_registry_is_refused"],
        ),
        Limit(
            "Instances of a role",
            "{archon_services.registry.domain.capacity:MAX_PER_ROLE}; setting `max_instances_per_role`",
            "`RESOURCE_EXHAUSTED` with a delay; a registered instance renews.",
            [
                "test_instances_per_role_and_client_are_bounded",
                "test_a_registered_instance_renews_and_changes_at_the_bound",
            ],
        ),
        Limit(
            "Instances of a tenant",
            "as the file of quotas says: setting `quotas`",
            "`RESOURCE_EXHAUSTED` / `QUOTA_EXCEEDED` with a delay; a registered instance renews.",
            ["test_instances_of_a_tenant_are_bounded"],
        ),
        Limit(
            "Instances that one client, a host, registers",
            "{archon_services.registry.domain.capacity:MAX_PER_CLIENT}; setting `max_instances_per_client`",
            "`RESOURCE_EXHAUSTED` with a delay; a registered instance renews.",
            [
                "test_instances_per_role_and_client_are_bounded",
                "test_a_restarted_registry_knows_who_registered",
                "test_a_client_cannot_fill_the_registry_of_a_real_process",
            ],
        ),
        Limit(
            "Registrations in one message of Watch or ListInstances",
            "{archon_services.registry.domain.queries:PART_BYTES|bytes}",
            "The next message or page has the rest.",
            ["test_large_snapshots_and_pages_are_split_into_messages"],
        ),
        Limit(
            "Changes queued for a watcher of the registry",
            "{archon_services.common.feed:MAX_QUEUED}",
            "The watch ends with `RESOURCE_EXHAUSTED` with a delay; the watcher resumes.",
            ["test_slow_watcher_is_disconnected_and_others_stay"],
        ),
        Limit(
            "Watchers of a registry, of a memory service",
            "{archon_services.common.feed:MAX_SUBSCRIPTIONS} each",
            "`RESOURCE_EXHAUSTED` with a delay",
            ["test_watch_above_the_limit_is_refused_with_a_retry_delay"],
        ),
        Limit(
            "Changes that a registry watch can resume from",
            "{archon_services.registry.store.view:HISTORY}",
            "The watch starts with a snapshot.",
            ["test_watch_resumes_as_far_back_as_changes_are_kept"],
        ),
        Limit(
            "Leases in one message of KeepAlive",
            "{archon_services.registry.api.validation:MAX_LEASES}",
            "`INVALID_ARGUMENT`",
            ["test_keep_alive_refuses_too_many_and_invalid_ids"],
        ),
    ],
    "Memory": [
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
    ],
    "Long-term memory": [
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
    ],
    "Tools": [
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
    ],
    "Tools that come with Archon": [
        Limit(
            "An expression; nesting; bits of a whole number; factorial",
            "{archon_mesh.tools.builtin.arithmetic:MAX_CHARS|characters}; {archon_mesh.tools.builtin.arithmetic:MAX_DEPTH}; "
            "{archon_mesh.tools.builtin.arithmetic:MAX_BITS}; {archon_mesh.tools.builtin.arithmetic:MAX_FACTORIAL}",
            "`INVALID_ARGUMENT`",
            ["test_what_has_no_value_is_refused_with_the_reason"],
        ),
        Limit(
            "Part of a file that one call reads; a file that one call writes",
            "{archon_mesh.tools.builtin.files:READ_BYTES|bytes}; {archon_mesh.tools.builtin.files:WRITE_BYTES|bytes}",
            "A note says from where to read on; `INVALID_ARGUMENT`.",
            ["test_a_long_file_is_read_part_by_part", "test_what_is_missing_or_no_text_or_too_large_is_refused"],
        ),
        Limit(
            "Entries of a folder that one call lists; parts of a path; bytes of a part",
            "{archon_mesh.tools.builtin.files:MAX_ENTRIES}; {archon_mesh.tools.builtin.folder:MAX_PARTS}; "
            "{archon_mesh.tools.builtin.folder:MAX_NAME_BYTES}",
            "`more` is true; `INVALID_ARGUMENT`.",
            ["test_a_large_folder_is_listed_in_part", "test_a_path_that_is_too_long_is_refused"],
        ),
        Limit(
            "A sandboxed program: time; CPU time of each process",
            "{archon_mesh.tools.builtin.sandbox:DEFAULT.seconds|seconds}; "
            "{archon_mesh.tools.builtin.sandbox:DEFAULT.cpu_seconds|seconds}; `SandboxLimits`",
            "It is killed with all that it started.",
            ["test_a_program_that_does_not_end_is_killed"],
        ),
        Limit(
            "Its memory per process; processes and threads; files; open files",
            "{archon_mesh.tools.builtin.sandbox:DEFAULT.memory_bytes|bytes}; "
            "{archon_mesh.tools.builtin.sandbox:DEFAULT.processes}; "
            "{archon_mesh.tools.builtin.sandbox:DEFAULT.file_bytes|bytes}; "
            "{archon_mesh.tools.builtin.sandbox:DEFAULT.open_files}",
            "The system call fails.",
            ["test_an_escape_fails"],
        ),
        Limit(
            "Its standard output and standard error, each; its code",
            "{archon_mesh.tools.builtin.sandbox:DEFAULT.output_bytes|bytes}; "
            "{archon_mesh.tools.builtin.sandbox:DEFAULT.code_bytes|bytes}",
            "It is killed; `INVALID_ARGUMENT`.",
            ["test_a_program_that_does_not_end_is_killed", "test_a_program_that_is_too_large_is_refused"],
        ),
    ],
    "Workflows": [
        Limit(
            "Characters of a template; its levels; characters of what it gives",
            "{archon_mesh.workflows.sandbox:MAX_SOURCE}; {archon_mesh.workflows.sandbox:MAX_DEPTH}; "
            "{archon_mesh.workflows.evaluate:MAX_RENDERED}",
            "`INVALID_ARGUMENT`: the run fails, or the file is refused.",
            ["test_no_template_multiplies_beyond_the_limits", "test_what_a_template_may_not_do_is_an_error"],
        ),
        Limit(
            "CPU time of a template; memory of its process; time of it and of all of one expansion",
            "{archon_mesh.workflows.sandbox:CPU_SECONDS|seconds}; "
            "{archon_mesh.workflows.sandbox:MEMORY_BYTES|bytes}; {archon_mesh.workflows.sandbox:SECONDS|seconds}",
            "Its process is ended; `INVALID_ARGUMENT`: the run fails.",
            ["test_an_error_names_the_limit", "test_templates_of_one_expansion_have_one_limit"],
        ),
        Limit(
            "Templates rendered by other processes at the same time; seconds that another one waits",
            "{archon_mesh.workflows.sandbox:PROCESSES}; {archon_mesh.limited.processes:WAIT_SECONDS|seconds}",
            "It waits; then `RESOURCE_EXHAUSTED`, which is retried.",
            ["test_a_request_waits_for_a_free_process"],
        ),
        Limit(
            "Steps and conditions that are evaluated in one expansion",
            "{archon_mesh.workflows.expand:MAX_EVALUATED}",
            "`INVALID_ARGUMENT`: the run fails.",
            ["test_conditions_without_end_are_refused"],
        ),
        Limit(
            "Bytes of results of templates that are remembered",
            "{archon_mesh.workflows.sandbox:MAX_REMEMBERED|bytes}",
            "Those used longest ago are forgotten, and rendered again.",
            ["test_the_oldest_results_are_forgotten"],
        ),
        Limit(
            "Items of a `for_each`; retries of a step",
            "{archon_mesh.workflows.expand:MAX_ITEMS}; {archon_mesh.workflows.schema:MAX_RETRIES}",
            "`INVALID_ARGUMENT`: the run fails; the file is refused.",
            ["test_a_result_that_does_not_fit_names_the_step", "test_each_fault_has_file_line_and_key"],
        ),
        Limit(
            "Steps of a file; blocks within each other; workflows that call each other; files of a folder",
            "{archon_mesh.workflows.load:MAX_STEPS}; {archon_mesh.workflows.schema:MAX_NESTING}; "
            "{archon_mesh.workflows.load:MAX_CALLS}; {archon_mesh.workflows.folder:MAX_FILES}",
            "`INVALID_ARGUMENT`; further files are not read.",
            ["test_large_files_are_refused", "test_workflows_that_call_each_other_are_an_error"],
        ),
        Limit(
            "A workflow with those that it calls and its arguments, in a goal",
            "{archon_mesh.workflows.role:MAX_WORKFLOW_BYTES|bytes}",
            "`INVALID_ARGUMENT`",
            ["test_a_workflow_in_a_goal_is_bounded"],
        ),
    ],
    "Plans": [
        Limit(
            "Members of a swarm; bytes of the results in its result",
            "{archon_mesh.planning.swarm:MAX_SWARM}; {archon_mesh.planning.swarm:MAX_SHOWN_BYTES|bytes}",
            "`INVALID_ARGUMENT`; further results are left out, and their items listed.",
            ["test_wrong_options_are_refused", "test_results_that_are_too_large_together_are_left_out"],
        ),
        Limit(
            "Characters of a planner's reply; its subtasks that are read",
            "{archon_mesh.planning.parse:MAX_REPLY}; {archon_mesh.planning.parse:MAX_READ_SUBTASKS}",
            "The plan fails: `MalformedPlan`.",
            ["test_what_is_no_plan_is_refused"],
        ),
        Limit(
            "Subtasks of a planner's plan; of a plan at all",
            "{archon_mesh.engine.plan.faults:MAX_SUBTASKS}; {archon_mesh.engine.plan.faults:MAX_PLAN_SUBTASKS}",
            "The planner is asked for fewer, then subtasks are merged.",
            ["test_too_many_steps_of_one_tool_are_merged", "test_too_many_steps_of_all_kinds_end_in_one_step"],
        ),
        Limit(
            "Subtasks that are executed at the same time",
            "{archon_mesh.planning.plan_execution:MAX_PARALLEL}; `max_parallel`",
            "Further subtasks wait.",
            ["test_independent_subtasks_run_at_the_same_time"],
        ),
        Limit(
            "Attempts at a subtask; time of an attempt",
            "{archon_mesh.planning.attempts:MAX_ATTEMPTS}, `max_attempts`; "
            "{archon_mesh.planning.attempts:TIMEOUT|seconds}, `timeout`",
            "The subtask fails.",
            ["test_a_failed_attempt_is_repeated_with_its_problem", "test_a_slow_attempt_fails"],
        ),
        Limit(
            "A value in the journal of a plan: the result of a subtask",
            "{archon_mesh.planning.records:MAX_VALUE_BYTES|bytes}",
            "The subtask fails.",
            ["test_a_result_that_is_too_large_fails_its_subtask"],
        ),
        Limit(
            "Replans of a task",
            "{archon_mesh.engine.plan.replan:MAX_REPLANS}",
            "The plan fails: `PlanFailed`.",
            ["test_after_three_replans_the_plan_fails_with_a_suggestion"],
        ),
        Limit(
            "Checks of a task's alignment with its query; time of one; characters of what it finds",
            "{archon_mesh.engine.plan.replan:MAX_ALIGNMENT_CHECKS}, `max_alignment_checks` of `ReplanPolicy`; "
            "{archon_mesh.planning.alignment:ALIGNMENT_TIMEOUT|seconds}; {archon_mesh.engine.plan.replan:MAX_PROBLEM}",
            "No further check is made; the plan counts as aligned; the text is cut.",
            [
                "test_checks_of_a_task_are_bounded",
                "test_a_check_that_never_ends_counts_as_aligned",
                "test_a_long_problem_is_cut_in_the_reason",
            ],
        ),
        Limit(
            "Characters of results that such a check sees; of one result; steps",
            "{archon_mesh.engine.plan.alignment:MAX_RESULTS_SHOWN}; {archon_mesh.engine.plan.alignment:MAX_RESULT_SHOWN}; "
            "{archon_mesh.engine.plan.alignment:MAX_STEPS_SHOWN}",
            "Results are cut, the oldest ones first; of further steps only the number is shown.",
            ["test_what_the_model_sees_is_bounded"],
        ),
        Limit(
            "Characters of a result; of the arguments of a subtask with their templates filled; levels of arguments",
            "{archon_mesh.planning.check:MAX_RESULT}; {archon_mesh.engine.plan.templates:MAX_CHARACTERS}; "
            "{archon_mesh.engine.plan.templates:MAX_DEPTH}",
            "The subtask fails.",
            ["test_a_result_is_checked_by_rules", "test_arguments_that_grow_too_large_are_refused"],
        ),
    ],
    "Model calls": [
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
    ],
    "Metrics": [
        Limit(
            "Combinations of labels of a counter; of a histogram",
            "{archon.telemetry.metrics:MAX_SERIES}; 2,000",
            "Further ones are counted together: `_OTHER`; `otel.metric.overflow`.",
            ["test_further_labels_of_a_counter_are_counted_together"],
        ),
        Limit(
            "Time that the end of a process waits for its last spans, metrics and logs to be exported, all together",
            "{archon.telemetry.otel_settings:END_TIMEOUT|seconds}",
            "They are lost, and the log says so in a line.",
            [
                "test_a_dead_collector_delays_the_end_of_no_process",
                "test_a_collector_that_is_frozen_or_down_delays_no_stop",
            ],
        ),
    ],
    "Command line": [
        Limit(
            "Evals: cases of a data set, and characters of one; trials of an eval; runs at a time; seconds of a trial by "
            "default; characters of an answer that results keep",
            "{archon_mesh.evals.case:MAX_CASES}, {archon_mesh.evals.case:MAX_LINE}; "
            "{archon_mesh.evals.run_eval:MAX_TRIALS}; {archon_mesh.evals.run_eval:MAX_PARALLEL}; "
            "{archon_mesh.evals.case:TIMEOUT|seconds}; {archon_mesh.evals.report:MAX_ANSWER}",
            "`INVALID_ARGUMENT`; the trial fails; the rest of the answer is left out.",
            ["test_functions_are_evaluated_without_a_mesh", "test_a_wrong_data_set_is_refused_with_line_and_key"],
        ),
        Limit(
            "The playground: answers to a variant, calls at a time; the file of a variant; a request that is sent again",
            "{archon_mesh.playground.played:MAX_REPEAT}, {archon_mesh.playground.played:PARALLEL}; "
            "{archon_mesh.playground.variant_file:MAX_BYTES|bytes}; "
            "{archon_mesh.playground.sent_request:MAX_BODY|characters}",
            "`INVALID_ARGUMENT`; the next call waits; `FAILED_PRECONDITION`.",
            [
                "test_an_argument_out_of_range_is_refused",
                "test_no_more_calls_run_at_a_time_than_wanted",
                "test_a_record_that_repeats_a_part_is_bounded",
                "test_a_file_that_is_too_large_is_refused",
            ],
        ),
        Limit(
            "Records of a run in progress that `archon show` reads",
            "{archon_services.cli.commands.show:MAX_CALLS}",
            "Further calls are not counted.",
            ["test_calls_of_an_attempt_are_shown_before_it_ends"],
        ),
        Limit(
            "`archon trace`: records that are read; rows of the text; rows of the SVG; characters of a line",
            "{archon_services.cli.commands.trace:MAX_CALLS}; {archon_services.cli.render.waterfall.text:MAX_ROWS}; "
            "{archon_services.cli.render.waterfall.svg:MAX_ROWS}; {archon_services.cli.render.waterfall.text:MAX_WIDTH}",
            "A note says so; the JSON has all spans.",
            [
                "test_rows_beyond_the_limit_are_counted",
                "test_rows_beyond_the_limit_are_left_out",
                "test_no_line_is_wider_than_the_width",
            ],
        ),
        Limit(
            "`archon prompts`: messages of a prompt that are compared with each other",
            "{archon_services.cli.render.prompt_sections:MAX_COMPARED}",
            "The others are not reported as duplicates.",
            ["test_messages_beyond_the_limit_are_not_compared"],
        ),
    ],
    "Logs": [
        Limit(
            "Lines that wait for the reader of a pipe or a terminal",
            "{archon.telemetry.logs.queued:MAX_LINES}, {archon.telemetry.logs.queued:MAX_BYTES|bytes}",
            "Further lines are dropped and counted.",
            [
                "test_the_lines_that_wait_are_bounded_in_count",
                "test_a_reader_that_stops_loses_lines_and_stops_no_one",
            ],
        ),
        Limit(
            "Time that the end of a process waits for its last lines",
            "{archon.telemetry.logs.queued:FLUSH_TIMEOUT|seconds}",
            "The lines are lost.",
            ["test_the_end_of_a_process_does_not_wait_for_a_stopped_reader"],
        ),
        Limit(
            "Time that the end of a process waits for the records that it has logged meanwhile",
            "{archon.telemetry.otel_settings:END_TIMEOUT|seconds}; {archon.telemetry.logs.otlp:CLOSE_TIMEOUT|seconds} if "
            "the collector has not answered before",
            "The records are lost.",
            ["test_a_collector_that_does_not_answer_delays_no_one"],
        ),
        Limit(
            "A message or another value of a line; a stack; fields that a program adds",
            "{archon.telemetry.logs.fields:MAX_TEXT} and {archon.telemetry.logs.fields:MAX_STACK} characters; "
            "{archon.telemetry.logs.fields:MAX_EXTRA}",
            "The rest is left out.",
            ["test_texts_stacks_and_fields_of_a_line_are_bounded"],
        ),
        Limit(
            "Log of a process of `archon up`",
            "{archon_services.local_mesh.logs:MAX_LOG|bytes}, and as much that was before",
            "It begins anew, and what it had replaces the log before it (`.old.log`).",
            ["test_a_log_above_its_limit_begins_anew"],
        ),
        Limit(
            "The part of each log that `archon logs` reads",
            "{archon_services.cli.commands.logs:TAIL_BYTES|bytes} at the end",
            "Earlier lines are not printed.",
            ["test_only_the_end_of_a_large_log_is_read"],
        ),
    ],
    "A mesh on one machine": [
        Limit(
            "Commands to its supervisor at a time; bytes of one",
            "{archon_services.local_mesh.control:MAX_CONNECTIONS}, of which one restarts or scales roles; "
            "{archon_services.local_mesh.control:MAX_REQUEST|bytes}",
            "The command is refused.",
            ["test_connections_are_bounded", "test_a_command_above_its_limit_is_refused"],
        ),
        Limit(
            "Instances of a role",
            "{archon_services.local_mesh.options:MAX_REPLICAS}",
            "`archon up` and `archon scale` refuse.",
            ["test_commands_to_a_mesh_are_for_its_owner_and_refused_typed"],
        ),
        Limit(
            "Time until a new instance is registered; until a stopped one is killed",
            "{archon_services.local_mesh.role_instances:INSTANCE_TIMEOUT|seconds}; "
            "{archon_services.local_mesh.child:GRACE|seconds}",
            "`archon restart` and `archon scale` fail; SIGKILL.",
            ["test_an_instance_that_cannot_start_is_removed"],
        ),
        Limit(
            "Files that `archon serve --reload` looks at",
            "{archon_services.cli.reload:MAX_FILES} of one folder",
            "Further files are ignored.",
            ["test_the_files_that_are_looked_at_are_bounded"],
        ),
        Limit(
            "Instances that `archon agents` asks whether they serve, and how many tasks are in progress",
            "{archon_services.cli.commands.agents:PROBED}",
            "State and load of further instances are not shown.",
            ["test_instances_beyond_the_probed_ones_have_no_state"],
        ),
    ],
}


def value_of(module: str, expression: str) -> float:
    """Evaluates the expression in the module. Raises if either is not there, or the value is not a number."""
    value = eval(expression, vars(importlib.import_module(module)))
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{module}:{expression} is {value!r}, not a number")
    return value


def shown(number: float, unit: str | None) -> str:
    """Formats a number: bytes in KiB or MiB, seconds up to days, counts with separators."""
    if unit == "bytes":
        return _sized(number, "B", "KiB", "MiB")
    if unit == "characters":
        if number % 1024 and number < 1e6:
            return f"{number:,.0f} characters"
        return _sized(number, "characters", "Ki characters", "Mi characters")
    if unit == "seconds":
        for size, name in ((86_400, "days"), (3_600, "h")):
            if number >= size:
                count = number / size
                return "1 day" if name == "days" and count == 1 else f"{count:g} {name}"
        return f"{number:g} s"
    return f"{number:,g}" if number < 1e6 else f"{number:,.0f}"


def _sized(number: float, *units: str) -> str:
    for unit in units[:-1]:
        if number < 1024:
            return f"{number:g} {unit}"
        number /= 1024
    return f"{round(number, 1):g} {units[-1]}"


def row(limit: Limit) -> str:
    """Renders one row of a table."""
    value = REFERENCE.sub(lambda match: shown(value_of(match[1], match[2]), match[3]), limit.value)
    return f"| {limit.what} | {value} | {limit.above} |"


def page() -> str:
    """Renders the page."""
    parts = [HEAD]
    for area, limits in LIMITS.items():
        head = "| what | limit | above it |\n|---|---|---|"
        parts.append(f"\n## {area}\n\n{head}\n" + "\n".join(map(row, limits)) + "\n")
    return "".join([*parts, TAIL])


if __name__ == "__main__":
    PAGE.write_text(page())
