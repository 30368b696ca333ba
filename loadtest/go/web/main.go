// Command web serves a synthetic web: many hosts by name, each on an address of its own in 127.0.0.0/8
// (or 10.0.0.0/8, for visitors from other machines), with HTTP, HTTPS and DNS, and a ledger of every request. What it serves follows from its settings and
// the seed alone. loadtest/synthetic_web.py builds and starts it.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"
)

const caFile = "ca.pem"

func main() {
	parse := settingsFlags(flag.CommandLine)
	controlPort := flag.Int("control-port", 0, "port of 127.0.0.1 for who steers it")
	dnsPort := flag.Int("dns-port", 0, "UDP port of 127.0.0.1, or of all addresses")
	directory := flag.String("directory", ".", "where ca.pem is written")
	flag.Parse()
	asked, err := parse()
	exitOn(err)
	debug.SetGCPercent(400)
	w := newWeb(asked)
	l := newLedger(w)
	o := newOrigin(w, l)
	r := &resolver{web: w}

	failed := make(chan error)
	plain, err := w.listen(asked.httpPort)
	exitOn(err)
	go func() { failed <- o.accept(plain, nil) }()
	if asked.hasTLS {
		a, err := newAuthority(w)
		exitOn(err)
		exitOn(a.writeTo(filepath.Join(*directory, caFile)))
		secure, err := w.listen(asked.tlsPort)
		exitOn(err)
		go func() { failed <- o.accept(secure, a.config()) }()
	}
	questions, err := net.ListenPacket("udp4", choose(w.isOnNetwork, ":", "127.0.0.1:")+strconv.Itoa(*dnsPort))
	exitOn(err)
	go func() { failed <- r.serve(questions) }()
	control, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(*controlPort))
	exitOn(err)
	go func() { failed <- http.Serve(control, controls(o, r)) }()
	exitOn(<-failed)
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "web:", err)
		os.Exit(1)
	}
}

// controls is what a test or benchmark asks of it.
func controls(o *origin, r *resolver) http.Handler {
	type standing struct {
		counts
		Connections uint32  `json:"connections"`
		Questions   int64   `json:"dns_questions"`
		CPUSeconds  float64 `json:"cpu_s"`
	}
	routes := http.NewServeMux()
	routes.HandleFunc("GET /control/ready", func(http.ResponseWriter, *http.Request) {})
	routes.HandleFunc("GET /control/counts", func(out http.ResponseWriter, _ *http.Request) {
		var usage syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
		_ = json.NewEncoder(out).Encode(standing{
			o.ledger.counts(), o.connections.Load(), r.questions.Load(),
			time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds(),
		})
	})
	routes.HandleFunc("GET /control/ledger", func(out http.ResponseWriter, _ *http.Request) {
		_ = o.ledger.writeTo(out)
	})
	routes.HandleFunc("GET /control/sizes", func(out http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(out).Encode(o.ledger.pageSizes())
	})
	routes.HandleFunc("GET /control/perfect", func(out http.ResponseWriter, _ *http.Request) {
		_ = o.web.writePerfect(out)
	})
	routes.HandleFunc("POST /control/reset", func(http.ResponseWriter, *http.Request) {
		o.ledger.reset()
		o.connections.Store(0)
		r.questions.Store(0)
	})
	return routes
}
