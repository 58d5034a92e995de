{{- define "ringfence.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "ringfence.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "ringfence.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "ringfence.selector" -}}
app.kubernetes.io/name: {{ include "ringfence.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "ringfence.labels" -}}
{{ include "ringfence.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "ringfence.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{- define "ringfence.secret" -}}
{{- default (printf "%s-secrets" (include "ringfence.fullname" .)) .Values.secrets.existingSecret -}}
{{- end -}}

{{- define "ringfence.databaseSecret" -}}
{{- if and .Values.database.existingSecret .Values.database.embedded.enabled -}}
{{- fail "database: set either existingSecret or embedded.enabled" -}}
{{- else if .Values.database.embedded.enabled -}}
{{ include "ringfence.fullname" . }}-postgres
{{- else -}}
{{ required "database: set existingSecret, or embedded.enabled to try things out" .Values.database.existingSecret }}
{{- end -}}
{{- end -}}

{{- define "ringfence.redisSecret" -}}
{{- if .Values.redis.existingSecret -}}
{{ .Values.redis.existingSecret }}
{{- else if .Values.redis.embedded.enabled -}}
{{ include "ringfence.fullname" . }}-redis
{{- else -}}
{{- fail "redis: set existingSecret, or embedded.enabled" -}}
{{- end -}}
{{- end -}}

{{- define "ringfence.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "ringfence.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* What web, workers and migrations share. Nothing else is in their environment. */}}
{{- define "ringfence.databaseEnv" -}}
- name: RINGFENCE_DATABASE_URL
  valueFrom: {secretKeyRef: {name: {{ include "ringfence.databaseSecret" . }}, key: url}}
{{- end -}}

{{- define "ringfence.platformEnv" -}}
{{ include "ringfence.databaseEnv" . }}
- name: RINGFENCE_REDIS_URL
  valueFrom: {secretKeyRef: {name: {{ include "ringfence.redisSecret" . }}, key: url}}
- name: RINGFENCE_ENCRYPTION_KEYS
  valueFrom: {secretKeyRef: {name: {{ include "ringfence.secret" . }}, key: encryption-keys}}
{{- end -}}

{{- define "ringfence.migrate" -}}
name: migrate
image: {{ include "ringfence.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
command: [python, manage.py, migrate, --no-input]
env:
  {{- include "ringfence.databaseEnv" . | nindent 2 }}
securityContext:
  {{- include "ringfence.containerSecurity" . | nindent 2 }}
resources:
  requests: {cpu: 100m, memory: 192Mi}
  limits: {memory: 512Mi}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
{{- end -}}

{{/* Spreads pods of one kind over nodes; `affinity` of the values replaces it. */}}
{{- define "ringfence.affinity" -}}
{{- if .affinity -}}
{{ toYaml .affinity }}
{{- else -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "ringfence.selector" .root | nindent 12 }}
            app.kubernetes.io/component: {{ .component }}
{{- end -}}
{{- end -}}
