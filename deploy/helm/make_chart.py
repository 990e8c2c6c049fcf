"""Writes the Helm chart in deploy/helm/archon from the overlays of deploy/kustomize: `make chart`.

The overlays are the source. Each of their manifests becomes a template in which only images, replicas, resources, sizes
of volumes, the configuration and the namespace are values; roles of agents are a list. With the default values the
chart renders what the overlays build, but for the namespace itself, which Helm's `--namespace` names; a test compares
them.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[2]
CHART: Final = Path(__file__).parent / "archon"
OVERLAYS: Final = ROOT / "deploy" / "kustomize" / "overlays"
PROFILES: Final = ("production", "dev")
PREFIX: Final = "archon-"
VERSION: Final = "0.1.0"
_MARK: Final = re.compile(r"'?@@(\d+)@@'?")
_WORKLOADS: Final = ("Deployment", "StatefulSet", "CronJob")

CHART_YAML: Final = f"""apiVersion: v2
name: archon
description: A mesh of agents in several languages, with durable runs.
type: application
version: {VERSION}
appVersion: "{VERSION}"
kubeVersion: ">=1.27.0-0"
"""

VALUES: Final = """# The values of the chart; what is not given is as in deploy/kustomize/overlays.

# `production`: two orchestrators on PostgreSQL, mutual TLS by cert-manager, network policies, backups. Before it is
# installed: deploy/README.md#production. `dev`: one of each, without any of that.
profile: production

image:
  # Before the names of Archon's images, such as registry.example.com/team/
  registry: ""
  tag: "{version}"

# Images of other projects, by the name of their container, such as etcd: registry.example.com/etcd:v3.6.16
images: {{}}

# The roles of agents. Each may have `replicas`, `resources` (as in a container) and `image` (complete, with its tag);
# a role that is null is left out.
roles:
{roles}
# Replicas by workload, such as orchestrator: 3; of etcd the number stays, because its members are named.
replicas: {{}}

# Resources by workload, such as orchestrator: {{requests: {{cpu: "1"}}, limits: {{memory: 1Gi}}}}
resources: {{}}

# Entries of the configuration, such as model: openai/gpt-5; log-level: debug
config: {{}}

# The keys that seal secrets of hooks in the journal (deploy/README.md#keys-of-hooks), in production; with `dev` the
# orchestrator keeps one on its volume. Either the name of a Secret with the entry hooks.key, or up to four keys, of
# which the first seals and all open. Without both, the Secret archon-hooks is read if there is one.
hooks:
  existingSecret: ""
  keys: []

# Sizes of volumes by the name of their claim, such as data: 20Gi, and their class; empty: the default class.
storage:
  sizes: {{}}
  class: ""
"""

HELPERS: Final = """{{/* The name of the configuration: it changes with its content, so that pods are replaced. */}}
{{- define "archon.config" -}}
{{- if .Values.config -}}
archon-{{ toJson .Values.config | sha256sum | trunc 10 }}
{{- else -}}
{{ index (dict %(names)s) .Values.profile }}
{{- end -}}
{{- end -}}
{{- define "archon.profile" -}}
{{- if not (has .Values.profile (list %(profiles)s)) }}{{ fail "profile must be production or dev" }}{{ end -}}
{{- end -}}
"""

HOOK_SECRET: Final = PREFIX + "hooks"
"""The Secret with the keys of hooks, if the values name no other."""

HOOK_VALUES: Final = """{{/* Checks the keys of hooks: each is a key of Fernet, 32 bytes in base64 for URLs. */}}
{{- define "archon.hooks" -}}
{{- $hooks := default dict .Values.hooks -}}
{{- $keys := default list $hooks.keys -}}
{{- if and $hooks.existingSecret $keys }}{{ fail "set hooks.existingSecret or hooks.keys, not both" }}{{ end -}}
{{- if and (ne .Values.profile "production") (or $hooks.existingSecret $keys) -}}
{{- fail "hooks.existingSecret and hooks.keys are for the profile production: with dev the key is on the volume" -}}
{{- end -}}
{{- if gt (len $keys) 4 }}{{ fail "hooks.keys has more than four keys" }}{{ end -}}
{{- range $keys -}}
{{- if not (regexMatch "^[A-Za-z0-9_-]{43}=$" (toString .)) -}}
{{- fail "an entry of hooks.keys is no line of hooks.key, which `archon token init` makes" -}}
{{- end -}}
{{- end -}}
{{- end -}}
"""

HOOK_KEYS: Final = f"""{{{{- $keys := (default dict .Values.hooks).keys }}}}
{{{{- if and (eq .Values.profile "production") $keys }}}}
apiVersion: v1
kind: Secret
metadata:
  name: {HOOK_SECRET}
  namespace: {{{{ .Release.Namespace }}}}
  labels:
    app.kubernetes.io/part-of: archon
  annotations:
    # What the journal has sealed stays readable after an uninstall.
    helm.sh/resource-policy: keep
type: Opaque
data:
  hooks.key: {{{{ printf "%s\\n" (join "\\n" $keys) | b64enc }}}}
{{{{- end }}}}
"""

NOTES: Final = """Archon's orchestrator is archon-orchestrator:7100 in the namespace {{ .Release.Namespace }}.

    kubectl -n {{ .Release.Namespace }} port-forward service/archon-orchestrator 7100
    archon doctor --orchestrator 127.0.0.1:7100
{{ if eq .Values.profile "production" }}
The namespace should enforce Pod Security:

    kubectl label namespace {{ .Release.Namespace }} pod-security.kubernetes.io/enforce=restricted
{{ end }}"""


class Template:
    """One manifest whose values are expressions of the template language."""

    def __init__(self, document: dict[str, Any], configurations: Collection[str], *, role: str = "") -> None:
        """`configurations` are the names of ConfigMaps with the configuration; `role` is the role of an agent whose
        name is an expression."""
        self._document = document
        self._configurations = configurations
        self._role = role
        self._expressions: list[tuple[str, bool]] = []

    def text(self) -> str:
        """Returns the manifest as a template of the chart: YAML whose namespace, image, settings and secrets are
        expressions over the chart's values. Changes the document."""
        self._document["metadata"]["namespace"] = self._value("{{ $.Release.Namespace }}")
        kind, name = self._document["kind"], self._document["metadata"]["name"].removeprefix(PREFIX)
        if kind in _WORKLOADS:
            self._workload(name)
        for claim in _claims(self._document):
            self._claim(claim)
        self._replace_hook_secret()
        if kind == "ConfigMap" and _is_configuration(self._document):
            self._configuration()
        else:
            self._replace_config_names(self._document)
        text = yaml.safe_dump(self._document, sort_keys=False, width=10_000, allow_unicode=True)
        text = text.replace("{{", '{{ "{{" }}')
        if self._role:
            text = re.sub(rf"\b{self._role}\b", "{{ $role }}", text)
        return "\n".join(map(self._filled, text.splitlines())) + "\n"

    def _workload(self, name: str) -> None:
        spec = self._document["spec"]
        if "replicas" in spec and name != "etcd":
            key = (
                f"$settings.replicas | default {spec['replicas']}"
                if self._role
                else (f'get $.Values.replicas "{name}" | default {spec["replicas"]}')
            )
            spec["replicas"] = self._value(f"{{{{ {key} }}}}")
        pod = spec["jobTemplate"]["spec"]["template"]["spec"] if "jobTemplate" in spec else spec["template"]["spec"]
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            container["image"] = self._value(self._image(container))
            if "resources" in container:
                default = f"(fromJson `{json.dumps(container['resources'])}`)"
                key = "$settings.resources" if self._role else f'get $.Values.resources "{name}"'
                container["resources"] = self._value(f"toYaml ({key} | default {default})", is_block=True)

    def _image(self, container: dict[str, Any]) -> str:
        image, _, tag = container["image"].partition(":")
        if image.startswith(PREFIX):
            image = image.replace(self._role, "{{ $role }}") if self._role else image
            own = f"{{{{ $.Values.image.registry }}}}{image}:{{{{ $.Values.image.tag }}}}"
            return f"{{{{ with $settings.image }}}}{{{{ . }}}}{{{{ else }}}}{own}{{{{ end }}}}" if self._role else own
        return f'{{{{ get $.Values.images "{container["name"]}" | default "{image}:{tag}" }}}}'

    def _claim(self, claim: dict[str, Any]) -> None:
        requests = claim["spec"]["resources"]["requests"]
        name = claim["metadata"]["name"].removeprefix(PREFIX)
        size = f'get $.Values.storage.sizes "{name}" | default "{requests["storage"]}"'
        requests["storage"] = self._value(f"{{{{ {size} }}}}")
        claim["spec"]["storageClassName"] = self._value("@storage-class")

    def _replace_hook_secret(self) -> None:
        """Makes the name of the Secret with the keys of hooks a value; other keys in the values replace pods."""
        template = self._document.get("spec", {}).get("template", {})
        for volume in template.get("spec", {}).get("volumes", ()):
            if volume.get("secret", {}).get("secretName") == HOOK_SECRET:
                name = f'{{{{ (default dict $.Values.hooks).existingSecret | default "{HOOK_SECRET}" }}}}'
                volume["secret"]["secretName"] = self._value(name)
                template["metadata"]["annotations"] = self._value("@hook-keys")

    def _configuration(self) -> None:
        default = f"(fromJson `{json.dumps(self._document['data'])}`)"
        self._document["metadata"]["name"] = self._value('{{ include "archon.config" $ }}')
        self._document["data"] = self._value(f"toYaml (merge (deepCopy $.Values.config) {default})", is_block=True)

    def _replace_config_names(self, value: Any) -> None:
        if isinstance(value, dict):
            for key, each in value.items():
                if key in ("configMapKeyRef", "configMapRef") and each["name"] in self._configurations:
                    each["name"] = self._value('{{ include "archon.config" $ }}')
                else:
                    self._replace_config_names(each)
        elif isinstance(value, list):
            for each in value:
                self._replace_config_names(each)

    def _value(self, expression: str, *, is_block: bool = False) -> str:
        self._expressions.append((expression, is_block))
        return f"@@{len(self._expressions) - 1}@@"

    def _filled(self, line: str) -> str:
        """Returns a line with expressions in place of their marks."""
        found = _MARK.search(line)
        if found is None:
            return line
        expression, is_block = self._expressions[int(found[1])]
        indent = len(line) - len(line.lstrip(" -"))
        if expression == "@storage-class":
            only_if = f"{' ' * indent}{{{{- with $.Values.storage.class }}}}"
            return f"{only_if}\n{line[: found.start()]}{{{{ . }}}}\n{' ' * indent}{{{{- end }}}}"
        if expression == "@hook-keys":
            lines = (
                "{{- with (default dict $.Values.hooks).keys }}",
                "annotations:",
                '  archon.dev/hook-keys: {{ join "," . | sha256sum }}',
                "{{- end }}",
            )
            return "\n".join(" " * indent + each for each in lines)
        if is_block:
            return f"{line[: found.start()].rstrip()} {{{{- {expression} | nindent {indent + 2} }}}}"
        return line[: found.start()] + expression + line[found.end() :]


def _is_configuration(document: dict[str, Any]) -> bool:
    return "registry" in document.get("data", {})


def _claims(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if document["kind"] == "PersistentVolumeClaim":
        yield document
    yield from document.get("spec", {}).get("volumeClaimTemplates", ())


def built(profile: str) -> list[dict[str, Any]]:
    """Returns the manifests of an overlay without the namespace."""
    kustomize = ROOT / ".tools" / "bin" / "kustomize"
    command = [str(kustomize if kustomize.exists() else "kustomize"), "build", str(OVERLAYS / profile)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    documents = yaml.load_all(done.stdout, Loader=yaml.CSafeLoader)
    return [each for each in documents if each and each["kind"] != "Namespace"]


def roles_of(documents: list[dict[str, Any]]) -> list[str]:
    """Returns the roles of the agents."""
    component = "app.kubernetes.io/component"
    return sorted(
        each["metadata"]["name"].removeprefix(PREFIX)
        for each in documents
        if each["kind"] == "Deployment" and each["metadata"].get("labels", {}).get(component) == "agent"
    )


def write(chart: Path) -> None:
    """Writes the chart into an empty folder."""
    manifests = {profile: built(profile) for profile in PROFILES}
    roles = roles_of(manifests["production"])
    configurations: dict[str, str] = {}
    for profile, documents in manifests.items():
        [configurations[profile]] = [
            each["metadata"]["name"] for each in documents if each["kind"] == "ConfigMap" and _is_configuration(each)
        ]
    for profile, documents in manifests.items():
        folder = chart / "templates" / profile
        folder.mkdir(parents=True)
        by_name: dict[str, list[str]] = {}
        for document in documents:
            name = document["metadata"]["name"].removeprefix(PREFIX)
            if name not in roles:
                file = "configuration" if document["kind"] == "ConfigMap" and _is_configuration(document) else name
                by_name.setdefault(re.sub(r"-[a-z0-9]{10}$", "", file), []).append(
                    Template(document, configurations.values()).text()
                )
        of_role = [each for each in documents if each["metadata"]["name"] == f"{PREFIX}{roles[0]}"]
        parts = [Template(document, configurations.values(), role=roles[0]).text() for document in of_role]
        each_role = "---\n".join(parts)
        by_name["roles"] = [
            "{{- range $role, $given := .Values.roles }}\n{{- $settings := $given | default dict }}\n---\n"
            f"{each_role}{{{{- end }}}}\n"
        ]
        for name, texts in by_name.items():
            condition = f'{{{{- if eq .Values.profile "{profile}" }}}}\n'
            (folder / f"{name}.yaml").write_text(condition + "---\n".join(texts) + "{{- end }}\n")
    names = " ".join(f'"{profile}" "{name}"' for profile, name in configurations.items())
    profiles = " ".join(f'"{profile}"' for profile in PROFILES)
    helpers = HELPERS % {"names": names, "profiles": profiles}
    (chart / "templates" / "_helpers.tpl").write_text(helpers + HOOK_VALUES)
    (chart / "templates" / "production" / "hook-keys.yaml").write_text(HOOK_KEYS)
    checks = '{{- include "archon.profile" . }}{{ include "archon.hooks" . }}\n'
    (chart / "templates" / "NOTES.txt").write_text(checks + NOTES)
    (chart / "Chart.yaml").write_text(CHART_YAML)
    listed = "".join(f"  {role}: {{}}\n" for role in roles)
    (chart / "values.yaml").write_text(VALUES.format(version=VERSION, roles=listed))


if __name__ == "__main__":
    shutil.rmtree(CHART, ignore_errors=True)
    CHART.mkdir()
    write(CHART)
    sys.stdout.write(f"wrote {CHART.relative_to(ROOT)}\n")
