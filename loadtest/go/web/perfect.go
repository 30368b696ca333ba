package main

import (
	"bufio"
	"encoding/json"
	"io"
)

type expectation struct {
	URL     string  `json:"url"`
	Verdict verdict `json:"verdict"`
	Ends    string  `json:"ends"`
	Kind    string  `json:"kind"`
}

// writePerfect tells everything that can be asked for, and what a perfect, polite crawl from all front
// pages does with it. It follows from the settings alone, without a request.
func (w *web) writePerfect(out io.Writer) error {
	buffered := bufio.NewWriterSize(out, 1<<16)
	lines := json.NewEncoder(buffered)
	for host := range w.hosts {
		for page := range w.counts[host] {
			path := string(w.appendPath(nil, host, page))
			tree := resource{host: host, path: path, verdict: must, ends: "done"}
			if err := lines.Encode(w.expect(tree, "page")); err != nil {
				return err
			}
			name := w.oddityOf(host, page)
			if name == "" {
				continue
			}
			for _, one := range oddities[name].resources(place{w, host, page, name}) {
				if !w.isOpen(host) {
					one.verdict = never // nobody comes to the page that links to it
				}
				if err := lines.Encode(w.expect(one, name)); err != nil {
					return err
				}
			}
		}
	}
	return buffered.Flush()
}

// isOpen tells whether any page of the host can be had.
func (w *web) isOpen(host int) bool { return w.robots[host] != robotsDisallowAll && !w.hasBadTLS(host) }

func (w *web) expect(one resource, kind string) expectation {
	e := expectation{w.origins[one.host] + one.path, one.verdict, one.ends, kind}
	switch {
	case w.hasBadTLS(one.host):
		e.Verdict, e.Ends = never, "failed"
	case w.isForbidden(one.host, one.path):
		e.Verdict, e.Ends = never, "disallowed"
	case e.Verdict == never:
		e.Ends = "unknown"
	}
	return e
}
