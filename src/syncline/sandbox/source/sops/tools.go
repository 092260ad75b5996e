//go:build tools

// Package source pins what the operator's image holds: importing the command keeps `go mod tidy` honest.
package source

import (
	_ "github.com/getsops/sops/v3/cmd/sops"
)
