//go:build tools

// Package source pins what the sandbox builds: importing the command keeps `go mod tidy` honest.
package source

import (
	_ "github.com/kcp-dev/kcp/cmd/kcp"
)
