//go:build tools

// Package source pins what the sandbox builds: importing the commands keeps `go mod tidy` honest.
package source

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
)
