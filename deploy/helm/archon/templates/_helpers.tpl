{{/* The name of the configuration: it changes with its content, so that pods are replaced. */}}
{{- define "archon.config" -}}
{{- if .Values.config -}}
archon-{{ toJson .Values.config | sha256sum | trunc 10 }}
{{- else -}}
{{ index (dict "production" "archon-dg7c9mcmgb" "dev" "archon-4c2f56h2cb") .Values.profile }}
{{- end -}}
{{- end -}}
{{- define "archon.profile" -}}
{{- if not (has .Values.profile (list "production" "dev")) }}{{ fail "profile must be production or dev" }}{{ end -}}
{{- end -}}
