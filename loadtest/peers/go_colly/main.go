// Command peer crawls the synthetic web with Colly, as bench-crawl wants it: robots.txt obeyed, links
// followed within the web, each page once. It prints its figures as JSON.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gocolly/colly/v2"
)

const keptPerHost = 2

// report is what is printed.
type report struct {
	Pages      int64   `json:"pages"`
	Failed     int64   `json:"failed"`
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpu_s"`
	MaxRSS     int64   `json:"max_rss_bytes"`
}

func main() {
	seedFile := flag.String("seeds", "", "a line for each host: URL of its front page, its address")
	concurrency := flag.Int("concurrency", 100, "requests at a time")
	delay := flag.Duration("delay", 0, "between two requests of a slot")
	agent := flag.String("user-agent", "", "with a contact")
	flag.Parse()
	seeds, addresses, err := readSeeds(*seedFile)
	exitOn(err)

	c := colly.NewCollector(colly.Async(true), colly.UserAgent(*agent))
	c.IgnoreRobotsTxt = false
	c.WithTransport(transport(addresses, *concurrency))
	exitOn(c.Limit(&colly.LimitRule{DomainGlob: "*", Parallelism: *concurrency, Delay: *delay}))
	var pages, failed atomic.Int64
	c.OnHTML("a[href]", func(element *colly.HTMLElement) {
		link := element.Request.AbsoluteURL(element.Attr("href"))
		if parsed, err := url.Parse(link); err == nil && addresses[parsed.Hostname()] != "" {
			_ = element.Request.Visit(link) // an error if it was visited already
		}
	})
	c.OnResponse(func(*colly.Response) { pages.Add(1) })
	c.OnError(func(*colly.Response, error) { failed.Add(1) })

	started, before := time.Now(), cpuSeconds()
	for _, seed := range seeds {
		_ = c.Visit(seed)
	}
	c.Wait()
	var usage syscall.Rusage
	exitOn(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	exitOn(json.NewEncoder(os.Stdout).Encode(report{
		pages.Load(), failed.Load(), time.Since(started).Seconds(), cpuSeconds() - before, usage.Maxrss * 1024,
	}))
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

func readSeeds(path string) (seeds []string, addresses map[string]string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	addresses = map[string]string{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		seed, address, _ := strings.Cut(lines.Text(), " ")
		parsed, err := url.Parse(seed)
		if err != nil {
			return nil, nil, err
		}
		seeds = append(seeds, seed)
		addresses[parsed.Hostname()] = address
	}
	return seeds, addresses, nil
}

// transport knows the addresses by heart, which spares it the DNS.
func transport(addresses map[string]string, concurrency int) *http.Transport {
	var dialer net.Dialer
	return &http.Transport{
		MaxIdleConns: 2 * concurrency, MaxIdleConnsPerHost: keptPerHost,
		DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
			host, port, err := net.SplitHostPort(to)
			if err != nil {
				return nil, err
			}
			return dialer.DialContext(ctx, network, net.JoinHostPort(addresses[host], port))
		},
	}
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}
