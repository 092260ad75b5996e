//go:build tools

// Package source pins what manifests are built with: importing the command keeps `go mod tidy` honest.
package source

import (
	_ "helm.sh/helm/v4/cmd/helm"
)
