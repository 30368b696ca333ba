//go:build tools

// Package tools keeps the servers we build in go.mod: without an import, `go mod tidy` drops them.
// Nothing compiles this file; devservers/build.py names the same packages.
package tools

import (
	_ "github.com/Shopify/toxiproxy/v2/cmd/server"
	_ "github.com/contribsys/faktory/cmd/faktory"
	_ "github.com/contribsys/faktory/test/load"
	_ "github.com/versity/versitygw/cmd/versitygw"
)
