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
{{/* Checks the keys of hooks: each is a key of Fernet, 32 bytes in base64 for URLs. */}}
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
