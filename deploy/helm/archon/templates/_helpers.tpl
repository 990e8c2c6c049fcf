{{/* The name of the configuration: it changes with its content, so that pods are replaced. */}}
{{- define "archon.config" -}}
{{- if .Values.config -}}
archon-{{ toJson .Values.config | sha256sum | trunc 10 }}
{{- else -}}
{{ index (dict "production" "archon-9mk8k6522b" "dev" "archon-g8hgk92mf7") .Values.profile }}
{{- end -}}
{{- end -}}
{{- define "archon.profile" -}}
{{- if not (has .Values.profile (list "production" "dev")) }}{{ fail "profile must be production or dev" }}{{ end -}}
{{- end -}}
