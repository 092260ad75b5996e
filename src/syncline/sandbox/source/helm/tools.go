//go:build tools

// Package tools keeps `go mod tidy` honest about what is built here.
package tools

import _ "helm.sh/helm/v4/cmd/helm"
