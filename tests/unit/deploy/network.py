"""Evaluates NetworkPolicies: who reaches whom, as https://kubernetes.io/docs/concepts/services-networking/network-policies
says."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.unit.deploy.manifests import Manifest

HOME: Final = "archon"
"""The namespace of the mesh."""


@dataclass(frozen=True)
class Pod:
    """A pod by its labels, the name of its namespace and the labels of that."""

    name: str
    labels: Mapping[str, str]
    namespace: str = HOME
    namespace_labels: Mapping[str, str] = field(default_factory=dict)

    def all_namespace_labels(self) -> dict[str, str]:
        """Returns the labels of its namespace, with the one that Kubernetes sets."""
        return {**self.namespace_labels, "kubernetes.io/metadata.name": self.namespace}


Peer = Pod | str
"""A pod, or an IP address outside of the cluster."""


def allowed(policies: Sequence[Manifest], source: Peer, target: Peer, port: int, protocol: str = "TCP") -> bool:
    """Whether a connection is let out by the policies of its source and let in by those of its target."""
    return _passes(policies, source, target, port, protocol, "Egress") and _passes(
        policies, target, source, port, protocol, "Ingress"
    )


def _passes(policies: Sequence[Manifest], subject: Peer, other: Peer, port: int, protocol: str, direction: str) -> bool:
    if isinstance(subject, str):
        return True
    mine = [
        policy["spec"]
        for policy in policies
        if policy["metadata"]["namespace"] == subject.namespace
        and matches(policy["spec"]["podSelector"], subject.labels)
        and direction in policy["spec"]["policyTypes"]
    ]
    key, peers = direction.lower(), {"Egress": "to", "Ingress": "from"}[direction]
    return not mine or any(
        _has_port(rule, port, protocol) and _has_peer(rule, peers, other, subject.namespace)
        for policy in mine
        for rule in policy.get(key, [])
    )


def _has_port(rule: Mapping[str, Any], port: int, protocol: str) -> bool:
    ports = rule.get("ports", [])
    return not ports or any(
        entry.get("protocol", "TCP") == protocol and entry.get("port", port) == port for entry in ports
    )


def _has_peer(rule: Mapping[str, Any], key: str, other: Peer, namespace: str) -> bool:
    return key not in rule or any(_is_peer(peer, other, namespace) for peer in rule[key])


def _is_peer(peer: Mapping[str, Any], other: Peer, namespace: str) -> bool:
    if "ipBlock" in peer:
        return isinstance(other, str) and _in_block(peer["ipBlock"], ipaddress.ip_address(other))
    if isinstance(other, str):
        return False
    if "namespaceSelector" in peer:
        if not matches(peer["namespaceSelector"], other.all_namespace_labels()):
            return False
    elif other.namespace != namespace:
        return False
    return matches(peer.get("podSelector", {}), other.labels)


def _in_block(block: Mapping[str, Any], address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    outside = any(address in ipaddress.ip_network(network) for network in block.get("except", []))
    return address in ipaddress.ip_network(block["cidr"]) and not outside


def matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether labels match a selector. Raises KeyError for an unknown operator."""
    if not selector.get("matchLabels", {}).items() <= labels.items():
        return False
    for expression in selector.get("matchExpressions", []):
        value = labels.get(expression["key"])
        holds = {
            "In": value in expression.get("values", []),
            "NotIn": value not in expression.get("values", []),
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }[expression["operator"]]
        if not holds:
            return False
    return True
