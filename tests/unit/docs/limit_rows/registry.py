"""Limits of the registry."""

from __future__ import annotations

from typing import Final

from tests.unit.docs.limit_rows.limit import Limit

LIMITS: Final[list[Limit]] = [
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
]
