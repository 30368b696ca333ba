// Command poster sends one POST again and again over connections that stay open, each with one
// request under way at a time, and prints what was answered and how fast as JSON. loadtest/poster.py
// builds and starts it.
//
// It shares two cores with the service that it measures, so it is one thread with one epoll, makes its
// request once, and reads of an answer no more than the status and the length.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"syscall"
	"time"
)

const (
	readSize = 64 << 10
	// A service that answers nothing for so long has failed.
	silence = 60 * time.Second
)

var (
	headEnd      = []byte("\r\n\r\n")
	lengthHeader = []byte("\r\ncontent-length: ")
)

// order is what is to be sent; see the flags.
type order struct {
	request     []byte
	connections int
	count       int
	duration    time.Duration
	pause       time.Duration
}

// report is what is printed.
type report struct {
	Statuses map[string]int `json:"statuses"`
	Seconds  float64        `json:"seconds"` // from the first byte sent to the last answer
	P50Ms    float64        `json:"p50_ms"`
	P95Ms    float64        `json:"p95_ms"`
	P99Ms    float64        `json:"p99_ms"`
	MostMs   float64        `json:"most_ms"`
	CPUSecs  float64        `json:"cpu_s"`
}

// connection has one request under way: unsent is what is left of it, answer what has come back.
type connection struct {
	fd        int
	unsent    []byte
	answer    []byte
	began     time.Time
	isBlocked bool
}

// poster is all of it.
type poster struct {
	order       order
	epoll       int
	connections map[int32]*connection
	buffer      []byte
	ends        time.Time // no request begins after this; zero: no limit
	begun       int
	underWay    int
	statuses    map[int]int
	took        []time.Duration
}

func main() {
	to := flag.String("to", "", "address of the service, host:port")
	path := flag.String("path", "/", "what is posted to")
	contentType := flag.String("content-type", "application/x-www-form-urlencoded", "of the body")
	body := flag.String("body", "", "file with the body of every request")
	var asked order
	flag.IntVar(&asked.connections, "connections", 1, "requests under way at a time")
	flag.IntVar(&asked.count, "count", 0, "requests in all; 0: as many as the time allows")
	flag.DurationVar(&asked.duration, "duration", 0, "no request begins later; 0: until the count is reached")
	flag.DurationVar(&asked.pause, "pause", 0, "longest pause before each request; at random, at least a fifth of it")
	flag.Parse()
	if asked.connections < 1 || (asked.count < 1 && asked.duration <= 0) || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	content, err := os.ReadFile(*body)
	exitOn(err)
	asked.request = fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n",
		*path, *to, *contentType, len(content))
	asked.request = append(asked.request, content...)
	// The memory that it needs is small and known: collecting it would only disturb the measurement.
	debug.SetGCPercent(-1)
	runtime.LockOSThread()
	p, err := connect(*to, asked)
	exitOn(err)
	seconds, err := p.run()
	exitOn(err)
	exitOn(json.NewEncoder(os.Stdout).Encode(p.report(seconds)))
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "poster:", err)
		os.Exit(1)
	}
}

func connect(to string, asked order) (*poster, error) {
	address, err := net.ResolveTCPAddr("tcp4", to)
	if err != nil {
		return nil, err
	}
	there := &syscall.SockaddrInet4{Port: address.Port}
	copy(there.Addr[:], address.IP.To4())
	epoll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	p := &poster{
		order: asked, epoll: epoll, connections: map[int32]*connection{},
		buffer: make([]byte, readSize), statuses: map[int]int{},
	}
	for range asked.connections {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		if err := syscall.Connect(fd, there); err != nil {
			return nil, fmt.Errorf("connect to %s: %w", to, err)
		}
		_ = syscall.SetNonblock(fd, true)
		_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
		if err := p.watch(syscall.EPOLL_CTL_ADD, fd, syscall.EPOLLIN); err != nil {
			return nil, err
		}
		p.connections[int32(fd)] = &connection{fd: fd}
	}
	return p, nil
}

// run sends until the count or the time is used up and everything is answered; the seconds it took.
func (p *poster) run() (float64, error) {
	started := time.Now()
	if p.order.duration > 0 {
		p.ends = started.Add(p.order.duration)
	}
	for _, one := range p.connections {
		if err := p.begin(one); err != nil {
			return 0, err
		}
	}
	events := make([]syscall.EpollEvent, len(p.connections))
	for p.underWay > 0 {
		count, err := syscall.EpollWait(p.epoll, events, int(silence/time.Millisecond))
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return 0, err
		}
		if count == 0 {
			return 0, fmt.Errorf("no answer within %s", silence)
		}
		for _, event := range events[:count] {
			if err := p.serve(p.connections[event.Fd], event.Events); err != nil {
				return 0, err
			}
		}
	}
	return time.Since(started).Seconds(), nil
}

// begin sends the next request, unless there is none.
func (p *poster) begin(c *connection) error {
	if p.order.count > 0 && p.begun >= p.order.count {
		return nil
	}
	if p.order.pause > 0 {
		least := p.order.pause / 5
		time.Sleep(least + rand.N(p.order.pause-least))
	}
	c.began = time.Now()
	if !p.ends.IsZero() && c.began.After(p.ends) {
		return nil
	}
	p.begun++
	p.underWay++
	c.unsent = p.order.request
	return p.write(c)
}

func (p *poster) serve(c *connection, events uint32) error {
	if events&syscall.EPOLLOUT != 0 {
		if err := p.write(c); err != nil {
			return err
		}
	}
	if events&^syscall.EPOLLOUT == 0 {
		return nil
	}
	count, err := syscall.Read(c.fd, p.buffer)
	if err == syscall.EAGAIN || err == syscall.EINTR {
		return nil
	}
	if err != nil {
		return err
	}
	if count == 0 {
		return fmt.Errorf("the service closed a connection after %q", c.answer)
	}
	c.answer = append(c.answer, p.buffer[:count]...)
	status, err := readAnswer(c.answer)
	if err != nil || status == 0 {
		return err
	}
	if len(c.unsent) > 0 {
		return fmt.Errorf("answered before the request was sent: %.300q", c.answer)
	}
	p.took = append(p.took, time.Since(c.began))
	p.statuses[status]++
	p.underWay--
	c.answer = c.answer[:0]
	return p.begin(c)
}

func (p *poster) write(c *connection) error {
	for len(c.unsent) > 0 {
		count, err := syscall.Write(c.fd, c.unsent)
		if err == syscall.EAGAIN {
			return p.block(c, true)
		}
		if err != nil && err != syscall.EINTR {
			return err
		}
		c.unsent = c.unsent[max(count, 0):]
	}
	return p.block(c, false)
}

// block asks to be told when there is room to write, or not any more.
func (p *poster) block(c *connection, isBlocked bool) error {
	if c.isBlocked == isBlocked {
		return nil
	}
	c.isBlocked = isBlocked
	var wanted uint32 = syscall.EPOLLIN
	if isBlocked {
		wanted |= syscall.EPOLLOUT
	}
	return p.watch(syscall.EPOLL_CTL_MOD, c.fd, wanted)
}

func (p *poster) watch(operation, fd int, wanted uint32) error {
	return syscall.EpollCtl(p.epoll, operation, fd, &syscall.EpollEvent{Events: wanted, Fd: int32(fd)})
}

// readAnswer gives the status of an answer that is whole, or 0.
func readAnswer(answer []byte) (int, error) {
	head := bytes.Index(answer, headEnd)
	if head < 0 {
		return 0, nil
	}
	if !bytes.HasPrefix(answer, []byte("HTTP/1.1 ")) || head < 12 {
		return 0, fmt.Errorf("not an answer: %.300q", answer)
	}
	status, err := strconv.Atoi(string(answer[9:12]))
	if err != nil {
		return 0, fmt.Errorf("not an answer: %.300q", answer)
	}
	_, after, hasLength := bytes.Cut(bytes.ToLower(answer[:head+2]), lengthHeader)
	digits, _, _ := bytes.Cut(after, []byte("\r"))
	length, err := strconv.Atoi(string(digits))
	if !hasLength || err != nil {
		return 0, fmt.Errorf("an answer of no known length: %.300q", answer)
	}
	switch rest := len(answer) - head - len(headEnd); {
	case rest < length:
		return 0, nil
	case rest > length:
		return 0, fmt.Errorf("more than an answer: %.300q", answer)
	}
	return status, nil
}

func (p *poster) report(seconds float64) report {
	statuses := map[string]int{}
	for status, count := range p.statuses {
		statuses[strconv.Itoa(status)] = count
	}
	slices.Sort(p.took)
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return report{
		Statuses: statuses, Seconds: seconds,
		P50Ms: p.percentile(50), P95Ms: p.percentile(95), P99Ms: p.percentile(99), MostMs: p.percentile(100),
		CPUSecs: time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds(),
	}
}

// percentile is the smallest time, in ms, that so many percent of all do not exceed.
func (p *poster) percentile(percent int) float64 {
	if len(p.took) == 0 {
		return 0
	}
	rank := (len(p.took)*percent + 99) / 100
	return float64(p.took[max(rank, 1)-1]) / float64(time.Millisecond)
}
