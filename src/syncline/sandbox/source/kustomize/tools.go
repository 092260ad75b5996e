//go:build tools

// Package tools keeps `go mod tidy` honest about what is built here.
package tools

import _ "sigs.k8s.io/kustomize/kustomize/v5"
