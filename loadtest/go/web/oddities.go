package main

import (
	"bytes"
	"compress/gzip"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
)

// verdict is what a perfect crawl does with something, robots.txt apart.
type verdict string

const (
	must  verdict = "must"
	may   verdict = "may" // a trap: each crawler draws its own line
	never verdict = "never"
)

// resource is something that a URL leads to.
type resource struct {
	host        int
	path        string // with its query; without what does not count
	status      int
	location    string
	header      string // more header lines
	contentType string
	body        string
	isPacked    bool   // the body is gzip
	manner      string // an answer of its own kind: drip, flood
	failures    int    // so many times 500 before it
	verdict     verdict
	ends        string // as what a perfect crawl leaves it
}

const (
	oddPageOneIn = 4
	// A perfect crawl follows so many redirects.
	mostRedirects = 5
	// A trap leads on for ever; whoever goes further than this is caught in it.
	trapLength = 50
	bombBytes  = 64 << 20
)

// An oddity of page p of a host: the links to it on that page, and what they lead to. The first
// segment of a path names the oddity, the second is p.
type oddity struct {
	links     func(o place) []string
	resources func(o place) []resource
}

type place struct {
	w          *web
	host, page int
	name       string
}

// path is that of an oddity, with what follows behind.
func (o place) path(rest string) string { return "/" + o.name + "/" + strconv.Itoa(o.page) + rest }

func (o place) behind() string { return "/behind-" + o.name + "/" + strconv.Itoa(o.page) }

func (o place) plain(path string, verdict verdict, hrefs ...string) resource {
	return resource{
		host: o.host, path: path, status: 200, contentType: "text/html; charset=utf-8",
		body: leaf(o.name, "", hrefs...), verdict: verdict, ends: "done",
	}
}

func (o place) redirect(from, to string, status int) resource {
	return resource{host: o.host, path: from, status: status, location: to, verdict: must, ends: "redirected"}
}

func (o place) refusal(status int) []resource {
	one := o.plain(o.path(""), must)
	one.status, one.ends = status, "failed"
	return []resource{one}
}

// withPageBehind is a page that is special in some way, and another that only it links to.
func (o place) withPageBehind(behind verdict, change func(*resource)) []resource {
	first := o.plain(o.path(""), must, o.behind())
	change(&first)
	return []resource{first, o.plain(o.behind(), behind)}
}

func oneLink(o place) []string { return []string{anchor(o.path(""), "")} }

var oddities = map[string]oddity{
	"moved": {oneLink, func(o place) []resource {
		return []resource{
			o.redirect(o.path(""), o.path("/there"), 301), o.plain(o.path("/there"), must),
		}
	}},
	"away": {oneLink, func(o place) []resource {
		there := place{o.w, o.w.hostFrom(o), o.page, o.name}
		path := "/landed/" + strconv.Itoa(o.host) + "-" + strconv.Itoa(o.page)
		return []resource{
			o.redirect(o.path(""), o.w.origins[there.host]+path, 302), there.plain(path, must),
		}
	}},
	"chain": {oneLink, func(o place) []resource {
		return []resource{
			o.redirect(o.path(""), o.path("/hop-1"), 302), o.redirect(o.path("/hop-1"), o.path("/hop-2"), 307),
			o.redirect(o.path("/hop-2"), o.path("/end"), 308), o.plain(o.path("/end"), must),
		}
	}},
	"circle": {oneLink, func(o place) []resource {
		return []resource{
			o.redirect(o.path(""), o.path("/round"), 302), o.redirect(o.path("/round"), o.path(""), 302),
		}
	}},
	"far": {oneLink, func(o place) []resource {
		hops := []resource{o.redirect(o.path(""), o.path("/hop-1"), 302)}
		for hop := 1; hop <= mostRedirects+3; hop++ {
			next := o.redirect(o.path("/hop-"+strconv.Itoa(hop)), o.path("/hop-"+strconv.Itoa(hop+1)), 302)
			if hop == mostRedirects {
				next.ends = "failed" // it leads too far
			} else if hop > mostRedirects {
				next.verdict = never
			}
			hops = append(hops, next)
		}
		return append(hops, o.plain(o.path("/hop-"+strconv.Itoa(mostRedirects+4)), never))
	}},
	"missing":   {oneLink, func(o place) []resource { return o.refusal(404) }},
	"gone":      {oneLink, func(o place) []resource { return o.refusal(410) }},
	"forbidden": {oneLink, func(o place) []resource { return o.refusal(403) }},
	"broken":    {oneLink, func(o place) []resource { return o.refusal(500) }},
	"shaky": {oneLink, func(o place) []resource {
		return o.withPageBehind(must, func(first *resource) { first.failures = 1 + o.page%2 })
	}},
	"private": {oneLink, func(o place) []resource {
		return o.withPageBehind(choose(o.w.isForbidden(o.host, o.path("")), never, must), func(*resource) {})
	}},
	"unfollowed": {
		func(o place) []string { return []string{anchor(o.path(""), `rel="noopener nofollow" `)} },
		func(o place) []resource { return []resource{o.plain(o.path(""), never)} },
	},
	"closed": {oneLink, func(o place) []resource {
		return o.withPageBehind(never, func(first *resource) {
			first.body = leaf(o.name, `<meta name="robots" content="index, nofollow">`, o.behind())
		})
	}},
	"sealed": {oneLink, func(o place) []resource {
		return o.withPageBehind(never, func(first *resource) { first.header = "X-Robots-Tag: nofollow\r\n" })
	}},
	"unlisted": {oneLink, func(o place) []resource {
		return o.withPageBehind(must, func(first *resource) {
			first.body = leaf(o.name, `<meta name="robots" content="noindex">`, o.behind())
		})
	}},
	"based": {oneLink, func(o place) []resource {
		return o.withPageBehind(must, func(first *resource) {
			first.body = leaf(o.name, `<base href="/behind-based/">`, strconv.Itoa(o.page))
		})
	}},
	"shop": {
		func(o place) []string {
			return []string{
				anchor(o.path("?PHPSESSID=4f2a"), ""), anchor(o.path("?PHPSESSID=77b1"), ""),
			}
		},
		func(o place) []resource {
			return []resource{o.plain(o.path(""), must, o.path("?PHPSESSID=9c0d"))}
		},
	},
	"calendar": {
		func(o place) []string { return []string{anchor(o.path("?month=0"), "")} },
		func(o place) []resource {
			return o.trap(func(turn int) string { return o.path("?month=" + strconv.Itoa(turn)) })
		},
	},
	"spiral": {
		func(o place) []string { return []string{anchor(o.path("/left/right/"), "")} },
		func(o place) []resource {
			return o.trap(func(turn int) string { return o.path("/" + strings.Repeat("left/right/", turn+1)) })
		},
	},
	"bomb": {oneLink, func(o place) []resource {
		return o.withoutPageBehind("any", func(one *resource) {
			one.isPacked, one.body, one.header = true, bomb(), "Content-Encoding: gzip\r\n"
		})
	}},
	"flood": {oneLink, func(o place) []resource {
		return o.withoutPageBehind("failed", func(one *resource) { one.manner = "flood" })
	}},
	"drip": {oneLink, func(o place) []resource {
		return o.withoutPageBehind("failed", func(one *resource) { one.manner = "drip" })
	}},
	"download": {oneLink, func(o place) []resource {
		return o.withoutPageBehind("skipped", func(one *resource) {
			one.contentType = []string{"application/octet-stream", "image/png", "application/pdf"}[o.page%3]
		})
	}},
	"archive": {
		func(o place) []string { return []string{anchor(o.path(".zip"), "")} },
		func(o place) []resource {
			one := o.plain(o.path(".zip"), may)
			one.contentType, one.ends = "application/zip", "skipped"
			return []resource{one}
		},
	},
	"untyped": {oneLink, func(o place) []resource {
		return o.withoutPageBehind("any", func(one *resource) { one.contentType = "" })
	}},
	"packed": {oneLink, func(o place) []resource {
		return o.withPageBehind(must, func(first *resource) {
			first.isPacked, first.header = true, "Content-Encoding: gzip\r\n"
			first.body = packed(first.body)
		})
	}},
	"latin": {oneLink, func(o place) []resource {
		return o.encoded("caf\u00e9", "text/html; charset=ISO-8859-1", "", func(text string) string {
			return strings.ReplaceAll(text, "\u00e9", "\xe9")
		})
	}},
	"cyrillic": {oneLink, func(o place) []resource {
		return o.encoded("\u0441\u0430\u0434", "text/html", `<meta charset="windows-1251">`, func(text string) string {
			return strings.NewReplacer("\u0441", "\xf1", "\u0430", "\xe0", "\u0434", "\xe4").Replace(text)
		})
	}},
	"wide": {oneLink, func(o place) []resource {
		return o.encoded("caf\u00e9", "text/html", "", func(text string) string {
			wide := []byte{0xff, 0xfe}
			for _, unit := range utf16.Encode([]rune(text)) {
				wide = append(wide, byte(unit), byte(unit>>8))
			}
			return string(wide)
		})
	}},
	"marked": {oneLink, func(o place) []resource {
		return o.encoded("caf\u00e9", "text/html", "", func(text string) string { return "\ufeff" + text })
	}},
}

func (o place) withoutPageBehind(ends string, change func(*resource)) []resource {
	one := o.plain(o.path(""), must)
	one.ends = ends
	change(&one)
	return []resource{one}
}

// trap is a row of pages without an end, each with a link to the next.
func (o place) trap(path func(turn int) string) []resource {
	var turns []resource
	for turn := range trapLength {
		turns = append(turns, o.plain(path(turn), may, path(turn+1)))
	}
	return append(turns, o.plain(path(trapLength), never, path(trapLength+1)))
}

// encoded is a page in another charset with a link that only who decodes it rightly can follow.
func (o place) encoded(word, contentType, head string, encode func(string) string) []resource {
	href := o.behind() + "-" + word
	page := o.plain(o.path(""), must)
	page.contentType = contentType
	page.body = encode(leaf(o.name, head, href))
	escaped := o.behind() + "-"
	for _, one := range []byte(word) {
		escaped += choose(one < 0x80, string(one), "%"+strings.ToUpper(strconv.FormatInt(int64(one), 16)))
	}
	return []resource{page, o.plain(escaped, must)}
}

// oddNames are those of this web, in an order that stays.
func (w *web) oddNames() []string {
	names := []string{
		"moved", "away", "chain", "circle", "far", "missing", "gone", "forbidden", "broken", "shaky", "private",
		"unfollowed", "closed", "sealed", "unlisted", "based", "shop", "calendar", "spiral", "bomb", "flood",
		"download", "archive", "untyped", "packed", "latin", "cyrillic", "wide", "marked",
	}
	if w.extras["drip"] {
		names = append(names, "drip")
	}
	return names
}

// oddityOf names the oddity of a page, if it has one.
func (w *web) oddityOf(host, page int) string {
	if w.isPlain {
		return ""
	}
	d := w.dice(forOddity, host, page)
	if d.below(oddPageOneIn) > 0 {
		return ""
	}
	return w.odd[d.below(len(w.odd))]
}

func (w *web) oddLinks(host, page int) []string {
	name := w.oddityOf(host, page)
	if name == "" {
		return nil
	}
	return oddities[name].links(place{w, host, page, name})
}

// hostFrom is the other host that an oddity leads to.
func (w *web) hostFrom(o place) int {
	return int(mixed(uint64(o.host)<<20+uint64(o.page)) % uint64(w.hosts))
}

// oddResource finds what a path of an oddity leads to, in which session parameters do not count.
func (w *web) oddResource(host int, path, query string) (resource, bool) {
	segments := strings.SplitN(path, "/", 4)
	if w.isPlain || len(segments) < 3 {
		return resource{}, false
	}
	name := strings.TrimPrefix(segments[1], "behind-")
	source, digits := host, segments[2]
	if name == "landed" {
		name = "away"
		from, page, _ := strings.Cut(digits, "-")
		digits = page
		number, err := strconv.Atoi(from)
		if err != nil || number < 0 || number >= w.hosts {
			return resource{}, false
		}
		source = number
	}
	page, err := strconv.Atoi(leadingDigits(digits))
	if err != nil || page >= w.counts[source] || w.oddityOf(source, page) != name {
		return resource{}, false
	}
	wanted := path
	if kept := sortedQuery(query); kept != "" {
		wanted += "?" + kept
	}
	for _, one := range oddities[name].resources(place{w, source, page, name}) {
		if one.host == host && one.path == wanted {
			return one, true
		}
	}
	return resource{}, false
}

func leadingDigits(text string) string {
	return text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]
}

func packed(text string) string {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	_, _ = zip.Write([]byte(text))
	_ = zip.Close()
	return out.String()
}

// bomb is a page of 64 MiB in 64 KB.
var bomb = sync.OnceValue(func() string {
	return packed("<!doctype html><html><body><p>" + strings.Repeat(" ", bombBytes))
})
