"""Limits of sessions with agents."""

from __future__ import annotations

from typing import Final

from tests.unit.docs.limit_rows.limit import Limit

LIMITS: Final[list[Limit]] = [
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
]
