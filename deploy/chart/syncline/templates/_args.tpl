{{/* The flags of `syncline run`, as a YAML list. */}}
{{- define "syncline.args" -}}
- run
{{- if .Values.leaderElection }}
- --leader-elect
{{- end }}
{{- if .Values.metrics.enabled }}
- --metrics-bind
- :8443
{{- end }}
- --health-bind
- :8081
{{- if .Values.webhooks.enabled }}
- --webhook-bind
- :8082
{{- end }}
{{- if .Values.depot.enabled }}
- --depot-bind
- :8444
{{- end }}
{{- if .Values.admission.enabled }}
- --admission-bind
- :9443
{{- end }}
- --git-cache
- /var/cache/syncline/git
- --log-format
- {{ .Values.log.format }}
{{- if ne .Values.log.level "info" }}
- --log-level
- {{ .Values.log.level }}
{{- end }}
{{- if and .Values.metrics.enabled (include "syncline.certificate" (list .Values.metrics.certificate "syncline-metrics-tls")) }}
- --metrics-cert-dir
- /etc/syncline/metrics
{{- end }}
{{- if and .Values.depot.enabled (include "syncline.certificate" (list .Values.depot.certificate "syncline-depot-tls")) }}
- --depot-cert-dir
- /etc/syncline/depot
{{- end }}
{{- if and .Values.depot.enabled .Values.depot.url }}
- --depot-url
- {{ .Values.depot.url | quote }}
{{- end }}
{{- if and .Values.admission.enabled (include "syncline.certificate" (list .Values.admission.certificate "syncline-admission-tls")) }}
- --admission-cert-dir
- /etc/syncline/admission
{{- end }}
{{- with .Values.agent.image }}
- --agent-image
- {{ . | quote }}
{{- end }}
{{- if and .Values.webhooks.enabled .Values.webhooks.secret.name }}
- --webhook-secret-file
- /etc/syncline/webhooks/{{ .Values.webhooks.secret.key }}
{{- end }}
{{- range $flag, $list := dict "trusted-proxies" .Values.webhooks.trustedProxies "watch-namespaces" .Values.watchNamespaces "protect-namespaces" .Values.tenancy.protectedNamespaces "allow-kinds" .Values.tenancy.allowedKinds }}
{{- if $list }}
- --{{ $flag }}
- {{ join "," $list | quote }}
{{- end }}
{{- end }}
{{- if ne .Values.minInterval "10s" }}
- --min-interval
- {{ .Values.minInterval | quote }}
{{- end }}
{{- if .Values.tenancy.requireServiceAccount }}
- --require-service-account
{{- end }}
{{- if .Values.tenancy.defaultServiceAccount }}
- --default-service-account
- {{ .Values.tenancy.defaultServiceAccount | quote }}
{{- end }}
{{- with .Values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The Secrets with certificates that the pod mounts, by the name of the server. */}}
{{- define "syncline.mountedCertificates" -}}
{{- range $name := list "metrics" "depot" "admission" }}
{{- $server := get $.Values $name }}
{{- $secret := include "syncline.certificate" (list $server.certificate (printf "syncline-%s-tls" $name)) }}
{{- if and $server.enabled $secret }}
{{ $name }}: {{ $secret | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* The ports of the pod, by name. */}}
{{- define "syncline.ports" -}}
{{- if .Values.metrics.enabled }}
metrics: 8443
{{- end }}
health: 8081
{{- if .Values.webhooks.enabled }}
webhooks: 8082
{{- end }}
{{- if .Values.depot.enabled }}
depot: 8444
{{- end }}
{{- if .Values.admission.enabled }}
admission: 9443
{{- end }}
{{- end }}
