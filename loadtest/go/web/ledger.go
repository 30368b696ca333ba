package main

import (
	"bufio"
	"encoding/json"
	"io"
	"strconv"
	"sync"
	"time"
)

// visit is one request and its answer. Times are nanoseconds of a clock that only goes forward.
type visit struct {
	host, agent             int32
	connection              uint32
	status                  uint16
	isRobots, isForbidden   bool
	arrived, ended, blocked int64  // blocked: until when the answer wants the host left alone
	sent                    int64  // bytes of the body
	path, page              string // as it was asked for, and the one path of what it leads to
}

// ledger keeps every visit. Its state: the visits, the user agents by number, and how often what
// fails at first was asked for.
type ledger struct {
	web     *web
	started time.Time
	lock    sync.Mutex
	visits  []visit
	agents  []string
	numbers map[string]int32
	tries   map[string]int
}

func newLedger(w *web) *ledger {
	l := &ledger{web: w, started: time.Now()}
	l.reset()
	return l
}

func (l *ledger) reset() {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.visits, l.agents = nil, nil
	l.numbers, l.tries = map[string]int32{}, map[string]int{}
}

func (l *ledger) now() int64 { return int64(time.Since(l.started)) }

// triesBefore counts how often it was called for a thing before.
func (l *ledger) triesBefore(host int, thing string) int {
	key := strconv.Itoa(host) + " " + thing
	l.lock.Lock()
	defer l.lock.Unlock()
	l.tries[key]++
	return l.tries[key] - 1
}

func (l *ledger) add(one visit, agent []byte) {
	l.lock.Lock()
	defer l.lock.Unlock()
	number, isKnown := l.numbers[string(agent)]
	if !isKnown {
		number = int32(len(l.agents))
		l.agents = append(l.agents, string(agent))
		l.numbers[string(agent)] = number
	}
	one.agent = number
	l.visits = append(l.visits, one)
}

// so far: what is there now will not change any more.
func (l *ledger) soFar() ([]visit, []string) {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.visits[:len(l.visits):len(l.visits)], l.agents[:len(l.agents):len(l.agents)]
}

type counts struct {
	Requests int            `json:"requests"`
	Robots   int            `json:"robots"`
	Pages    int            `json:"pages"` // answered with 200
	Bytes    int64          `json:"bytes"`
	Statuses map[string]int `json:"statuses"`
	NowNs    int64          `json:"now_ns"`
}

func (l *ledger) counts() counts {
	visits, _ := l.soFar()
	c := counts{Requests: len(visits), Statuses: map[string]int{}, NowNs: l.now()}
	byStatus := map[uint16]int{}
	for index := range visits {
		one := &visits[index]
		byStatus[one.status]++
		c.Bytes += one.sent
		if one.isRobots {
			c.Robots++
		} else if one.status == 200 {
			c.Pages++
		}
	}
	for status, count := range byStatus {
		c.Statuses[strconv.Itoa(int(status))] = count
	}
	return c
}

// pageSizes lists the bytes of every page that was given, without robots.txt.
func (l *ledger) pageSizes() []int64 {
	visits, _ := l.soFar()
	sizes := []int64{}
	for index := range visits {
		if one := &visits[index]; one.status == 200 && !one.isRobots {
			sizes = append(sizes, one.sent)
		}
	}
	return sizes
}

type visitLine struct {
	Host        string  `json:"host"`
	Path        string  `json:"path"`
	URL         string  `json:"url"`
	ArrivedNs   int64   `json:"arrived_ns"`
	EndedNs     int64   `json:"ended_ns"`
	BlockedNs   int64   `json:"blocked_until_ns"`
	Connection  uint32  `json:"connection"`
	Agent       string  `json:"agent"`
	Status      uint16  `json:"status"`
	IsRobots    bool    `json:"is_robots"`
	IsForbidden bool    `json:"is_forbidden"`
	CrawlDelayS float64 `json:"crawl_delay_s"`
}

func (l *ledger) writeTo(out io.Writer) error {
	visits, agents := l.soFar()
	buffered := bufio.NewWriterSize(out, 1<<16)
	lines := json.NewEncoder(buffered)
	for index := range visits {
		one := &visits[index]
		line := visitLine{
			Path: one.path, URL: one.page, ArrivedNs: one.arrived, EndedNs: one.ended, BlockedNs: one.blocked,
			Connection: one.connection, Agent: agents[one.agent], Status: one.status,
			IsRobots: one.isRobots, IsForbidden: one.isForbidden,
		}
		if one.host >= 0 {
			line.Host = l.web.names[one.host]
			line.URL = l.web.origins[one.host] + one.page
			if l.web.robots[one.host] == robotsCrawlDelay {
				line.CrawlDelayS = crawlDelayS
			}
		}
		if err := lines.Encode(line); err != nil {
			return err
		}
	}
	return buffered.Flush()
}
