{{/* Combinations of values that cannot work. Each message says what to change. */}}
{{- define "syncline.checks" -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.leaderElection) }}
{{- fail "replicas is more than 1 and leaderElection is false, so several operators would write at once: set leaderElection to true" }}
{{- end }}
{{- if and (not .Values.webhooks.enabled) (or .Values.webhooks.ingress.enabled .Values.webhooks.httpRoute.enabled) }}
{{- fail "webhooks.ingress or webhooks.httpRoute is enabled and webhooks is not, so it would lead nowhere: set webhooks.enabled to true" }}
{{- end }}
{{- if and .Values.webhooks.ingress.enabled (not .Values.webhooks.ingress.host) }}
{{- fail "webhooks.ingress has no host: set webhooks.ingress.host" }}
{{- end }}
{{- if and .Values.webhooks.httpRoute.enabled (not .Values.webhooks.httpRoute.parentRefs) }}
{{- fail "webhooks.httpRoute has no Gateway: set webhooks.httpRoute.parentRefs" }}
{{- end }}
{{- if and (not .Values.metrics.enabled) (or .Values.metrics.serviceMonitor.enabled .Values.metrics.prometheusRule.enabled) }}
{{- fail "metrics.serviceMonitor or metrics.prometheusRule is enabled and metrics is not: set metrics.enabled to true" }}
{{- end }}
{{- end }}
