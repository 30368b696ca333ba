package main

import (
	"bytes"
	"net/netip"
	"strconv"
	"strings"
)

const (
	// Addresses are 127.a.b.c with c from 1 to 250 and a from 1: none is 127.0.0.1, where DNS and control are.
	// Nothing but the first byte differs for visitors from other machines.
	loopbackByte = 127
	privateByte  = 10
	lastBytes    = 250
	maxHosts     = 250 * 256 * 200
	suffix       = ".test"
)

// domainOf numbers the registrable domains: of each four hosts three share one, and one is alone.
func domainOf(host int) int {
	if host%4 == 3 {
		return host/4*2 + 1
	}
	return host / 4 * 2
}

func hostName(host int) string {
	return "w" + strconv.Itoa(host) + ".site" + strconv.Itoa(domainOf(host)) + suffix
}

func (w *web) address(host int) netip.Addr {
	first := choose[byte](w.isOnNetwork, privateByte, loopbackByte)
	block := host / lastBytes
	return netip.AddrFrom4([4]byte{first, byte(1 + block/256), byte(block % 256), byte(1 + host%lastBytes)})
}

// hostByName finds a host by its name in any case, -1 if there is none.
func (w *web) hostByName(name string) int {
	label, _, found := strings.Cut(name, ".")
	if !found || len(label) < 2 || label[0]|0x20 != 'w' {
		return -1
	}
	host, err := strconv.Atoi(label[1:])
	if err != nil || host < 0 || host >= w.hosts || !strings.EqualFold(name, w.names[host]) {
		return -1
	}
	return host
}

var words = strings.Fields(`amber anchor autumn basket beacon birch border bridge bronze candle canyon castle
cedar circle cliff clover cobalt copper corner cotton crystal desert dragon eagle ember falcon feather forest
garden glacier granite harbor hazel island jasmine juniper kernel ladder lantern lemon linen lobster maple
marble meadow mirror morning mountain needle oasis ocean olive orchard paper pebble pepper pilot planet
prairie quartz rabbit raven river saddle saffron sailor shadow silver spring summit sunset thunder timber
tunnel valley velvet violet walnut willow window winter yellow zephyr`)

// appendPath gives the one path that a page has; one page in five of the real web has it in its query.
func (w *web) appendPath(to []byte, host, page int) []byte {
	if page == 0 {
		return append(to, '/')
	}
	d := w.dice(forPath, host, page)
	if !w.isPlain && d.below(5) == 0 {
		to = append(to, "/read?lang=en&page="...)
		return strconv.AppendInt(to, int64(page), 10)
	}
	to = append(to, "/articles/"...)
	to = strconv.AppendInt(to, int64(page), 10)
	to = append(append(to, '-'), words[d.below(len(words))]...)
	to = append(append(to, '-'), words[d.below(len(words))]...)
	return append(to, ".html"...)
}

// pageByPath finds a page by its path and query, in which tracking parameters and their order do not
// count; -1 if there is none.
func (w *web) pageByPath(host int, path, query string) int {
	digits := "0"
	if rest, isArticle := strings.CutPrefix(path, "/articles/"); isArticle {
		digits, _, _ = strings.Cut(rest, "-")
	} else if path == "/read" {
		digits = parameter(query, "page")
	} else if path != "/" {
		return -1
	}
	page, err := strconv.Atoi(digits)
	if err != nil || page < 0 || page >= w.counts[host] {
		return -1
	}
	var room [128]byte
	wanted, wantedQuery, _ := bytes.Cut(w.appendPath(room[:0], host, page), []byte("?"))
	if path != string(wanted) || sortedQuery(query) != string(wantedQuery) {
		return -1
	}
	return page
}

func parameter(query, name string) string {
	for part := range strings.SplitSeq(query, "&") {
		if key, value, _ := strings.Cut(part, "="); key == name {
			return value
		}
	}
	return ""
}

// sortedQuery is a query without tracking and session parameters, sorted.
func sortedQuery(query string) string {
	if query == "" {
		return ""
	}
	var kept []string
	for part := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(part, "=")
		if strings.HasPrefix(name, "utm_") || name == "fbclid" || name == "PHPSESSID" {
			continue
		}
		at := 0
		for at < len(kept) && kept[at] <= part {
			at++
		}
		kept = append(kept[:at], append([]string{part}, kept[at:]...)...)
	}
	return strings.Join(kept, "&")
}
