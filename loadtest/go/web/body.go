package main

import (
	"html"
	"sort"
	"strconv"
	"strings"
)

const (
	fillerBytes = 1 << 20
	// The links stand in this share of a page, and before this byte: crawlers cut long pages.
	linkShare  = 0.6
	linksUntil = 80_000
)

// filler is markup without links, made once; pages are cut from it between its blocks.
type filler struct {
	text   []byte
	starts []int // of each block, and the end
}

func newFiller() *filler {
	f := &filler{}
	d := dice{1}
	for len(f.text) < fillerBytes {
		f.starts = append(f.starts, len(f.text))
		switch kind := d.below(20); {
		case kind < 12:
			f.text = append(f.text, "<p class=\"body\">"...)
			f.text = appendWords(f.text, &d, 25+d.below(40))
			f.text = append(f.text, " <em>"...)
			f.text = appendWords(f.text, &d, 3)
			f.text = append(f.text, "</em>.</p>\n"...)
		case kind < 17:
			f.text = append(f.text, "<div class=\"card wide\"><ul class=\"list\">"...)
			for range 2 + d.below(3) {
				f.text = append(f.text, "<li data-key=\""...)
				f.text = strconv.AppendInt(f.text, int64(d.below(100_000)), 10)
				f.text = append(f.text, "\"><span class=\"label\">"...)
				f.text = appendWords(f.text, &d, 4)
				f.text = append(f.text, "</span></li>"...)
			}
			f.text = append(f.text, "</ul></div>\n"...)
		default:
			f.text = append(f.text, "<script>var state = {\"items\": ["...)
			for range 10 + d.below(20) {
				f.text = strconv.AppendInt(f.text, int64(d.below(1_000_000)), 10)
				f.text = append(f.text, ", "...)
			}
			f.text = append(f.text, "0]};</script>\n"...)
		}
	}
	f.starts = append(f.starts, len(f.text))
	return f
}

func appendWords(to []byte, d *dice, count int) []byte {
	for number := range count {
		if number > 0 {
			to = append(to, ' ')
		}
		to = append(to, words[d.below(len(words))]...)
	}
	return to
}

// append adds as many whole blocks from this one on as there is room for, in bytes; the next block.
func (f *filler) append(to []byte, block, room int) ([]byte, int) {
	for {
		start := f.starts[block]
		next := sort.SearchInts(f.starts, start+room+1) - 1
		if next <= block {
			return to, block
		}
		to = append(to, f.text[start:f.starts[next]]...)
		room -= f.starts[next] - start
		block = next
		if block < f.blocks() {
			return to, block
		}
		block = 0
	}
}

func (f *filler) blocks() int { return len(f.starts) - 1 }

// appendPage writes the whole document.
func (w *web) appendPage(to []byte, host, page int) []byte {
	began := len(to)
	size := w.sizeOf(host, page)
	d := w.dice(forFiller, host, page)
	block := d.below(w.filler.blocks())
	to = append(to, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Page "...)
	to = strconv.AppendInt(to, int64(page), 10)
	to = append(append(to, " of "...), w.names[host]...)
	to = append(to, "</title></head>\n<body>\n"...)
	for _, one := range w.oddLinks(host, page) {
		to = append(append(to, one...), '\n')
	}
	var room [mostLinks + branches]target
	links := w.links(room[:0], host, page)
	until := min(float64(size)*linkShare, linksUntil)
	for place, link := range links {
		share := int(until*float64(place+1)/float64(len(links))) - bytesOfLink
		to, block = w.filler.append(to, block, share-(len(to)-began))
		to = append(to, "<p><a class=\"link\" href=\""...)
		to = w.appendHref(to, host, page, place, link)
		to = append(append(append(to, "\">"...), words[d.below(len(words))]...), "</a></p>\n"...)
	}
	const end = "</body></html>\n"
	to, _ = w.filler.append(to, block, size-(len(to)-began)-len(end))
	for len(to)-began < size-len(end) {
		to = append(to, '\n') // less than a block
	}
	return append(to, end...)
}

// leaf is a small document with the links that are given.
func leaf(title, head string, hrefs ...string) string {
	var text strings.Builder
	text.WriteString("<!doctype html>\n<html lang=\"en\"><head><title>" + title + "</title>" + head + "</head><body><p>" + title + "</p>\n")
	for _, href := range hrefs {
		text.WriteString(anchor(href, "") + "\n")
	}
	text.WriteString("</body></html>\n")
	return text.String()
}

func anchor(href, attributes string) string {
	return "<a " + attributes + "href=\"" + html.EscapeString(href) + "\">more</a>"
}
