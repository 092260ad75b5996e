{{/* Labels that select the operator's pods. They never change: a Deployment's selector is immutable. */}}
{{- define "syncline.selector" -}}
app.kubernetes.io/name: syncline
{{- end }}

{{/* Labels that the chart sets on every object. */}}
{{- define "syncline.ownLabels" -}}
{{ include "syncline.selector" . }}
app.kubernetes.io/part-of: syncline
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Labels of every object: those of the chart, and those of the values under other names. */}}
{{- define "syncline.labels" -}}
{{- toYaml (merge (include "syncline.ownLabels" . | fromYaml) (default dict .Values.labels)) }}
{{- end }}

{{/* Labels of every object, and more labels of the values: (list ROOT LABELS). */}}
{{- define "syncline.labelsWith" -}}
{{- toYaml (merge (include "syncline.labels" (index . 0) | fromYaml) (default dict (index . 1))) }}
{{- end }}

{{/* metadata of an object in the namespace of the release: (list ROOT NAME) or (list ROOT NAME ANNOTATIONS). */}}
{{- define "syncline.metadata" -}}
{{- $root := index . 0 -}}
name: {{ index . 1 }}
namespace: {{ $root.Release.Namespace | quote }}
labels:
  {{- include "syncline.labels" $root | nindent 2 }}
{{- if gt (len .) 2 }}
{{- with index . 2 }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{/* A generated object as YAML: with the labels of the release, and in its namespace: (list ROOT OBJECT). */}}
{{- define "syncline.object" -}}
{{- $root := index . 0 -}}
{{- $object := index . 1 -}}
{{- $labels := merge (default dict $object.metadata.labels) (include "syncline.labels" $root | fromYaml) -}}
{{- $_ := set $object.metadata "labels" $labels -}}
{{- if $object.metadata.namespace }}
{{- $_ := set $object.metadata "namespace" $root.Release.Namespace }}
{{- end }}
{{- range $object.subjects }}
{{- $_ := set . "namespace" $root.Release.Namespace }}
{{- end -}}
{{ toYaml $object }}
{{- end }}

{{- define "syncline.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* The Secret with the certificate of a server, or nothing: (list CERTIFICATE NAME). */}}
{{- define "syncline.certificate" -}}
{{- $certificate := index . 0 -}}
{{- if $certificate.issuerRef -}}
{{ $certificate.secretName | default (index . 1) }}
{{- else -}}
{{ $certificate.secretName }}
{{- end -}}
{{- end }}
