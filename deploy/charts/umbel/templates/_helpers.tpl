{{- define "umbel.image" -}}
{{ .Values.image.name | default (printf "umbel:%s" .Chart.AppVersion) }}
{{- end }}

{{- define "umbel.selector" -}}
app.kubernetes.io/name: umbel-operator
{{- end }}

{{- define "umbel.labels" -}}
{{ include "umbel.selector" . }}
app.kubernetes.io/part-of: umbel
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "umbel.subjects" -}}
- kind: ServiceAccount
  name: umbel-operator
  namespace: {{ .Release.Namespace }}
{{- end }}
