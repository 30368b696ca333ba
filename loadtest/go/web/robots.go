package main

import (
	"strconv"
	"strings"
)

// robotsKind is what a host answers to GET /robots.txt.
type robotsKind int

const (
	robotsAllowAll robotsKind = iota
	robotsDisallow
	robotsMissing
	robotsForbidden
	robotsElsewhere // a redirect to another host; the rules hold for this one
	robotsCrawlDelay
	robotsHuge
	robotsHTML
	robotsByToken // rules for us that differ from those for all
	robotsDisallowAll
	robotsLateComer // 5xx at first
)

const (
	privateRules    = "User-agent: *\nDisallow: /private/\n"
	crawlDelayS     = 2
	hugeRobotsBytes = 600 << 10
	// So many requests of robots.txt are answered with 503 where it comes late.
	lateRobots = 2
	// Where the rules of another host lie.
	sharedRobots = "/shared-robots.txt"
)

func (w *web) robotsKindOf(host int) robotsKind {
	if w.isPlain {
		return robotsAllowAll
	}
	d := w.dice(forRobots, host, 0)
	switch draw := d.below(100); {
	case draw < 30:
		return robotsAllowAll
	case draw < 50:
		return robotsDisallow
	case draw < 60:
		return robotsMissing
	case draw < 65:
		return robotsForbidden
	case draw < 73:
		return robotsElsewhere
	case draw < 78:
		return robotsCrawlDelay
	case draw < 81:
		return robotsHuge
	case draw < 86:
		return robotsHTML
	case draw < 92:
		return robotsByToken
	case draw < 95:
		return robotsDisallowAll
	default:
		return choose(w.extras["robots-5xx"], robotsLateComer, robotsDisallow)
	}
}

// isForbidden tells whether the host's robots.txt forbids a path to us.
func (w *web) isForbidden(host int, path string) bool {
	switch w.robots[host] {
	case robotsDisallowAll:
		return true
	case robotsDisallow, robotsElsewhere, robotsCrawlDelay, robotsHuge, robotsByToken, robotsLateComer:
		return strings.HasPrefix(path, "/private/")
	}
	return false
}

// robotsAnswer gives what is answered after so many requests of it before.
func (w *web) robotsAnswer(host, before int) resource {
	answer := resource{host: host, path: "/robots.txt", status: 200, contentType: "text/plain"}
	switch w.robots[host] {
	case robotsAllowAll:
		answer.body = "User-agent: *\nDisallow:\n"
	case robotsDisallow:
		answer.body = privateRules
	case robotsMissing:
		answer.status, answer.body = 404, "no such file\n"
	case robotsForbidden:
		answer.status, answer.body = 403, "not for you\n"
	case robotsElsewhere:
		answer.status = 301
		answer.location = w.origins[(host+1)%w.hosts] + sharedRobots
	case robotsCrawlDelay:
		answer.body = privateRules + "Crawl-delay: " + strconv.Itoa(crawlDelayS) + "\n"
	case robotsHuge:
		answer.body = privateRules + strings.Repeat("Disallow: /nothing-is-here\n", hugeRobotsBytes/27)
	case robotsHTML:
		answer.contentType, answer.body = "text/html", leaf("Welcome", "")
	case robotsByToken:
		answer.body = "User-agent: *\nDisallow: /articles/\nDisallow: /read\n\nUser-agent: manyhands\nDisallow: /private/\n"
	case robotsDisallowAll:
		answer.body = "User-agent: *\nDisallow: /\n"
	case robotsLateComer:
		answer.body = privateRules
		if before < lateRobots {
			answer.status, answer.body = 503, ""
		}
	}
	return answer
}
