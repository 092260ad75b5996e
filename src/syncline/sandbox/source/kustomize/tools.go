//go:build tools

// Package source pins what manifests are built with: importing the command keeps `go mod tidy` honest.
package source

import (
	_ "sigs.k8s.io/kustomize/kustomize/v5"
)
