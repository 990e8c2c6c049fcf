"""The manifests of the kustomize base as they stand in the repository."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[3]
BASE: Final = ROOT / "deploy" / "kustomize" / "base"
DOCKERFILE: Final = ROOT / "deploy" / "Dockerfile"

Manifest = dict[str, Any]


class Invalid(Exception):
    """The schema refuses a manifest."""


def validate(manifest: Manifest, version: str) -> None:
    """Checks a manifest against the schema of its kind in a version of Kubernetes. Raises Invalid, for unknown fields
    too."""
    schemas: Any = import_module("kubernetes_validate")  # it has no types, and its import takes a second
    try:
        schemas.validate(manifest, version, strict=True)
    except schemas.ValidationError as error:
        raise Invalid(str(error)) from error


def kustomization() -> Manifest:
    """Returns the kustomization of the base."""
    content: Manifest = yaml.safe_load((BASE / "kustomization.yaml").read_text())
    return content


@cache
def _documents() -> list[Manifest]:
    return [
        document
        for path in sorted(BASE.glob("*.yaml"))
        if path.name != "kustomization.yaml"
        for document in yaml.safe_load_all(path.read_text())
    ]


def manifests() -> list[Manifest]:
    """Returns every object of every file of the base."""
    return deepcopy(_documents())


def name_of(manifest: Manifest) -> str:
    """Returns a name such as `Deployment/archon-registry` for the ids of tests."""
    return f"{manifest['kind']}/{manifest['metadata']['name']}"


def workloads() -> list[Manifest]:
    """Returns the Deployments and StatefulSets."""
    return [manifest for manifest in manifests() if manifest["kind"] in ("Deployment", "StatefulSet")]


def ours() -> list[Manifest]:
    """Returns the workloads that run images of Archon."""
    return [workload for workload in workloads() if name_of(workload) != "StatefulSet/archon-etcd"]


def services() -> dict[str, Manifest]:
    """Returns the Services by name."""
    return {manifest["metadata"]["name"]: manifest for manifest in manifests() if manifest["kind"] == "Service"}


def pod(workload: Manifest) -> Manifest:
    """Returns the pod spec of a workload."""
    spec: Manifest = workload["spec"]["template"]["spec"]
    return spec


def container(workload: Manifest) -> Manifest:
    """Returns the only container of a workload."""
    only: Manifest
    (only,) = pod(workload)["containers"]
    return only


def literals() -> dict[str, str]:
    """Returns the values of the ConfigMap."""
    (generator,) = kustomization()["configMapGenerator"]
    return dict(literal.split("=", 1) for literal in generator["literals"])


def environment(workload: Manifest) -> dict[str, str]:
    """Returns the variables of a workload with the values of the ConfigMap. A value that the cluster fills in is
    `<path>`."""
    values = {}
    for variable in container(workload).get("env", ()):
        if "value" in variable:
            values[variable["name"]] = variable["value"]
        elif "fieldRef" in variable["valueFrom"]:
            values[variable["name"]] = f"<{variable['valueFrom']['fieldRef']['fieldPath']}>"
        else:
            values[variable["name"]] = literals()[variable["valueFrom"]["configMapKeyRef"]["key"]]
    return values
