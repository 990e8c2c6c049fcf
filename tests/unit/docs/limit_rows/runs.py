"""Limits of runs."""

from __future__ import annotations

from typing import Final

from tests.unit.docs.limit_rows.limit import Limit

LIMITS: Final[list[Limit]] = [
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
        "{archon_mesh.engine.decide.retries:RECOVERY[Kind.LOST].tries}",
        "The task fails: `POISONED`.",
        ["test_durability_20_a_task_is_poisoned_after_three_losses"],
    ),
    Limit(
        "Rejects of a task",
        "{archon_mesh.engine.decide.retries:RECOVERY[Kind.REFUSED].tries}",
        "The task fails.",
        ["test_rejects_are_not_losses_and_are_limited"],
    ),
    Limit(
        "Attempts of a task that are given back, or rejected by instances that stop",
        "{archon_mesh.engine.decide.retries:RECOVERY[Kind.RETURNED].tries}",
        "The task fails.",
        ["test_a_task_that_is_given_back_endlessly_fails"],
    ),
    Limit(
        "Attempts whose turn was stored second",
        "{archon_mesh.engine.decide.retries:RECOVERY[Kind.CONFLICT].tries}",
        "The task fails: `CONVERSATION_MOVED`.",
        ["test_a_task_whose_turn_is_always_second_fails_with_a_reason"],
    ),
    Limit(
        "Lost and failed attempts of a run",
        "{archon_mesh.engine.decide.retries:ERROR_BUDGET}",
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
        "{archon_mesh.engine.plan.faults:MAX_PLAN_SUBTASKS}; {archon_mesh.engine.decide.plan_reply:MAX_DEPENDENCIES}",
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
        "Paths of the field mask of an edit of a hook or a schedule",
        "{archon_services.orchestrator.convert.field_mask:MAX_PATHS}",
        "`INVALID_ARGUMENT`.",
        ["test_a_mask_is_bounded"],
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
]
