package main

import (
	"math"
	"net/http"
	"time"
)

// busyKind is how a host sends away those who come for its first pages.
type busyKind int

const (
	neverBusy       busyKind = iota
	busyForSeconds           // 429, Retry-After: 1
	busyUntilDate            // 429, Retry-After: a date
	busyUnavailable          // 503, Retry-After: 2
	busyWithoutWord          // 503 alone
)

// So many requests of pages are sent away.
const busyTimes = 2

func (w *web) busyKindOf(host int) busyKind {
	if w.isPlain {
		return neverBusy
	}
	d := w.dice(forBusy, host, 0)
	switch draw := d.below(100); {
	case draw < 5:
		return busyForSeconds
	case draw < 9:
		return busyUntilDate
	case draw < 12:
		return busyUnavailable
	case draw < 15:
		return choose(w.extras["headerless-503"], busyWithoutWord, neverBusy)
	}
	return neverBusy
}

// sendAway is the answer of a busy host, and how long it wants to be left alone; zero: it does not say.
func sendAway(kind busyKind, now time.Time) (resource, time.Duration) {
	answer := resource{status: 429, contentType: "text/plain", body: "too many requests\n"}
	switch kind {
	case busyForSeconds:
		answer.header = "Retry-After: 1\r\n"
		return answer, time.Second
	case busyUntilDate:
		// Dates have whole seconds.
		until := time.Unix(int64(math.Ceil(float64(now.UnixMilli())/1000))+1, 0)
		answer.header = "Retry-After: " + until.UTC().Format(http.TimeFormat) + "\r\n"
		return answer, until.Sub(now)
	case busyUnavailable:
		answer.status, answer.header = 503, "Retry-After: 2\r\n"
		return answer, 2 * time.Second
	default:
		answer.status = 503
		return answer, 0
	}
}
