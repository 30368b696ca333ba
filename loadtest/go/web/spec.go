package main

import (
	"flag"
	"fmt"
	"math"
	"strconv"
	"strings"
)

const (
	// The sizes of real pages: median 138 KB, mean 242 KB, which is this spread of a log-normal.
	realMedianBytes = 138_000
	realSpread      = 1.06
	plainBytes      = 20_000
	leastBytes      = 1_000
	mostBytes       = 2_000_000
	// Tree children of a page: a host of a million pages is seven links deep.
	branches = 8
	// A host with a Crawl-delay is small, or it would hold up a test crawl for minutes.
	weightOfSlowHost = 0.2
	// Of the mean: no host of a test crawl takes much longer than the others.
	mostPagesShare = 4.0
)

// settings say what the web is; two processes with the same ones serve the same web.
type settings struct {
	hosts, pages, bigHostPages int
	seed                       uint64
	isPlain                    bool
	sizeBytes                  int
	sizeSpread                 float64
	latencyMs, latencySpread   float64
	crossShare, duplicateShare float64
	hasTLS, closes             bool
	isOnNetwork                bool
	extras                     map[string]bool
	httpPort, tlsPort          int
}

// web is the settings and what follows from them at once; it never changes.
type web struct {
	settings
	counts  []int // pages of each host
	robots  []robotsKind
	busy    []busyKind
	filler  *filler
	origins []string // of each host: scheme, name, port
	names   []string
	odd     []string // the oddities that pages can have
}

// extras take minutes, because a polite crawler waits for so long; each must be asked for.
var knownExtras = []string{"robots-5xx", "headerless-503", "drip", "bad-tls"}

func settingsFlags(flags *flag.FlagSet) func() (settings, error) {
	var s settings
	var profile, with string
	flags.StringVar(&profile, "profile", "plain", "plain: 200 pages alone; web: everything that the real one has")
	flags.IntVar(&s.hosts, "hosts", 20, "number of hosts")
	flags.IntVar(&s.pages, "pages", 200, "pages of all hosts together; at least one of each")
	flags.IntVar(&s.bigHostPages, "big-host-pages", 0, "more pages of the first host")
	flags.Uint64Var(&s.seed, "seed", 1, "another seed, another web")
	flags.IntVar(&s.sizeBytes, "size", 0, "median size of a page, bytes; 0: 20000 (plain) or 138000")
	flags.Float64Var(&s.sizeSpread, "size-spread", -1, "sigma of the log-normal sizes, 0: all alike; default 0 (plain) or 1.06")
	flags.Float64Var(&s.latencyMs, "latency-ms", 0, "median time before an answer begins")
	flags.Float64Var(&s.latencySpread, "latency-spread", 0, "sigma of the log-normal latencies, 0: all alike")
	flags.Float64Var(&s.crossShare, "cross-share", 0.1, "share of the links to known pages that lead to another host")
	flags.Float64Var(&s.duplicateShare, "duplicate-share", 0.45, "share of all links that lead to a page which is linked elsewhere too")
	flags.BoolVar(&s.hasTLS, "tls", false, "all links are https, to the TLS port")
	flags.BoolVar(&s.closes, "close", false, "every answer closes its connection")
	flags.BoolVar(&s.isOnNetwork, "on-a-network", false, "addresses are 10.a.b.c, which must lead here; not 127.a.b.c")
	flags.StringVar(&with, "with", "", "what takes minutes, comma-separated: "+strings.Join(knownExtras, ", "))
	flags.IntVar(&s.httpPort, "http-port", 0, "port of all hosts")
	flags.IntVar(&s.tlsPort, "tls-port", 0, "port of all hosts for TLS")
	return func() (settings, error) {
		s.isPlain = profile == "plain"
		if !s.isPlain && profile != "web" {
			return s, fmt.Errorf("no profile %q", profile)
		}
		if s.hosts < 1 || s.hosts > maxHosts || s.pages < s.hosts {
			return s, fmt.Errorf("1 to %d hosts, and at least as many pages", maxHosts)
		}
		if s.sizeBytes == 0 {
			s.sizeBytes = choose(s.isPlain, plainBytes, realMedianBytes)
		}
		if s.sizeSpread < 0 {
			s.sizeSpread = choose(s.isPlain, 0, realSpread)
		}
		s.extras = map[string]bool{}
		for _, name := range strings.Split(with, ",") {
			if name != "" && !strings.Contains(","+strings.Join(knownExtras, ",")+",", ","+name+",") {
				return s, fmt.Errorf("no extra %q", name)
			}
			s.extras[name] = true
		}
		return s, nil
	}
}

func choose[T any](condition bool, yes, no T) T {
	if condition {
		return yes
	}
	return no
}

func newWeb(s settings) *web {
	w := &web{settings: s, filler: newFiller()}
	scheme, port := "http", s.httpPort
	if s.hasTLS {
		scheme, port = "https", s.tlsPort
	}
	for host := range s.hosts {
		w.names = append(w.names, hostName(host))
		w.origins = append(w.origins, scheme+"://"+hostName(host)+":"+strconv.Itoa(port))
		w.robots = append(w.robots, w.robotsKindOf(host))
		w.busy = append(w.busy, w.busyKindOf(host))
	}
	w.counts = w.pageCounts()
	w.odd = w.oddNames()
	return w
}

// pageCounts shares the pages out: evenly, or after a log-normal as sites differ.
func (w *web) pageCounts() []int {
	weights := make([]float64, w.hosts)
	total := 0.0
	for host := range weights {
		weights[host] = 1
		if !w.isPlain {
			d := w.dice(forHostSize, host, 0)
			weights[host] = min(math.Exp(0.8*d.normal()), mostPagesShare)
			if w.robots[host] == robotsCrawlDelay {
				weights[host] = weightOfSlowHost
			}
		}
		total += weights[host]
	}
	// Each host has its front page; what is left over goes by weight, rounded so that the sum is right.
	counts := make([]int, w.hosts)
	spare, until, given := float64(w.pages-w.hosts), 0.0, 0
	for host, weight := range weights {
		until += weight
		upTo := int(math.Round(spare * until / total))
		counts[host] = 1 + upTo - given
		given = upTo
	}
	counts[0] += w.bigHostPages
	return counts
}

// sizeOf is how many bytes a page wants to have.
func (w *web) sizeOf(host, page int) int {
	if w.sizeSpread == 0 {
		return w.sizeBytes
	}
	d := w.dice(forSize, host, page)
	size := float64(w.sizeBytes) * math.Exp(w.sizeSpread*d.normal())
	return int(min(max(size, leastBytes), mostBytes))
}

// latencyOf is how many seconds pass before the answer begins.
func (w *web) latencyOf(host, page int) float64 {
	if w.latencySpread == 0 {
		return w.latencyMs / 1000
	}
	d := w.dice(forLatency, host, page)
	return w.latencyMs / 1000 * math.Exp(w.latencySpread*d.normal())
}
