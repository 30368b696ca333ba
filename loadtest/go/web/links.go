package main

import (
	"bytes"
	"math"
	"strconv"
)

const (
	medianLinks = 40
	linksSpread = 0.8
	leastLinks  = 5
	mostLinks   = 300
	// With the markup around it.
	bytesOfLink = 130
	// One link in eight of the real web is not written in the canonical form.
	variantOneIn = 8
)

// target is where a link leads: to a page, or (host -1) out of this web.
type target struct{ host, page int }

// How a link can be written that means the same page.
const (
	asIs = iota
	withFragment
	withUpperCaseHost
	withTracking
	withDotSegments
	withEscapes
	withReorderedQuery
	variants
)

// links gives the targets of a page: its children in the tree, by which every page of a host can be
// reached from its front page; links to pages that are linked elsewhere as well; and links to pages of
// other webs, each of which is new.
func (w *web) links(into []target, host, page int) []target {
	d := w.dice(forLinks, host, page)
	wanted := int(medianLinks * math.Exp(linksSpread*d.normal()))
	room := w.sizeOf(host, page) / 2 / bytesOfLink
	wanted = min(max(wanted, leastLinks), max(room, leastLinks), mostLinks)
	first := page*branches + 1
	children := max(0, min(branches, w.counts[host]-first))
	known := int(math.Round(w.duplicateShare * float64(wanted)))
	for child := range children {
		into = append(into, target{host, first + child})
	}
	for range known {
		to := host
		if d.float() < w.crossShare {
			to = d.below(w.hosts)
		}
		into = append(into, target{to, d.below(w.counts[to])})
	}
	for foreign := range max(0, wanted-known-children) {
		into = append(into, target{-1, foreign})
	}
	for last := len(into) - 1; last > 0; last-- {
		other := d.below(last + 1)
		into[last], into[other] = into[other], into[last]
	}
	return into
}

// appendHref writes a link of a page, the one at this place of it.
func (w *web) appendHref(to []byte, host, page, place int, t target) []byte {
	if t.host < 0 {
		d := w.dice(forLinks, host, -1-page)
		number := mixed(d.state + uint64(place))
		to = append(to, "http://out"...)
		to = strconv.AppendUint(to, number%100, 10)
		to = append(to, ".elsewhere"...)
		to = strconv.AppendUint(to, number/100%5000, 10)
		to = append(to, suffix+"/news/"...)
		return strconv.AppendUint(to, number, 36)
	}
	if !w.isPlain {
		d := w.dice(forLinks, host, page)
		d.state += uint64(place)
		if d.below(variantOneIn) == 0 {
			return w.appendVariant(to, 1+d.below(variants-1), t)
		}
	}
	if t.host != host {
		to = append(to, w.origins[t.host]...)
	}
	return w.appendPath(to, t.host, t.page)
}

func (w *web) appendVariant(to []byte, variant int, t target) []byte {
	path := string(w.appendPath(nil, t.host, t.page))
	origin := w.origins[t.host]
	isQuery := bytes.ContainsRune([]byte(path), '?')
	switch {
	case variant == withUpperCaseHost:
		origin = string(bytes.ToUpper([]byte(origin)))
	case variant == withTracking && isQuery:
		path += "&utm_source=feed"
	case variant == withTracking:
		path += "?fbclid=a1b2c3"
	case variant == withDotSegments:
		path = "/old/.././new/.." + path
	case variant == withEscapes && t.page > 0:
		path = path[:1] + "%" + strconv.FormatInt(int64(path[1]), 16) + path[2:]
	case variant == withReorderedQuery && isQuery:
		path = "/read?page=" + strconv.Itoa(t.page) + "&lang=en"
	default:
		path += "#part-2"
	}
	return append(append(to, origin...), path...)
}
