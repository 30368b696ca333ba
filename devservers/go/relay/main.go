// Command relay is a TCP relay that makes the loopback as far away as a real network: what arrives
// on one side leaves on the other side half a round trip later, in order, both ways. devservers/relay.py
// starts it. A delay of 0 takes the same path, so a measurement with and one without delay pay the
// same cost. Opening the upstream connection is not delayed; everything sent through it is.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"runtime"
	"sync"
	"time"
)

const (
	// Small on purpose: 2,000 connections have 4,000 of these.
	readSize = 8 << 10
	// Bytes in flight per direction before the reader stops reading, as a full window would.
	// 1 MiB each 25 ms is 40 MiB/s for one connection.
	maxInFlight = 1 << 20
)

func main() {
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	listen := flag.String("listen", "127.0.0.1:0", "address to listen on")
	to := flag.String("to", "", "address to relay to, host:port")
	rtt := flag.Duration("rtt", 0, "round trip to add; each direction waits for half of it")
	flag.Parse()
	if *to == "" || *rtt < 0 || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}

	// One thread does the work of 30,000 messages a second, and waking others costs more processor
	// time than they save: it is the servers and clients that are to have the processors.
	runtime.GOMAXPROCS(1)
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)

	for {
		conn, err := listener.Accept()
		if err != nil {
			// Out of file descriptors, most likely: the ones that close make room again.
			log.Print(err)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		go serve(conn.(*net.TCPConn), *to, *rtt/2)
	}
}

// serve joins one accepted connection to one of its own to the upstream, until both are closed.
func serve(client *net.TCPConn, to string, delay time.Duration) {
	conn, err := net.Dial("tcp", to)
	if err != nil {
		log.Print(err)
		reset(client)
		return
	}
	upstream := conn.(*net.TCPConn)
	// Go sets TCP_NODELAY by itself; it is said here because the measurements depend on it.
	_ = client.SetNoDelay(true)
	_ = upstream.SetNoDelay(true)

	var done sync.WaitGroup
	done.Add(2)
	for _, way := range []*line{newLine(client, upstream, delay), newLine(upstream, client, delay)} {
		go way.read()
		go func() {
			defer done.Done()
			way.write()
		}()
	}
	done.Wait()
	_ = client.Close()
	_ = upstream.Close()
}

// reset closes a connection with RST instead of FIN: the other end broke, it did not finish.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}

// stretch is a run of bytes that arrived together.
type stretch struct {
	due  time.Time
	size int
}

// line is one direction of one connection. The reader appends to waiting and stretches, the writer
// takes from their front whatever is due.
type line struct {
	from, to *net.TCPConn
	delay    time.Duration

	mu        sync.Mutex
	changed   *sync.Cond
	waiting   []byte
	stretches []stretch
	ended     bool      // the reader has read its last byte
	broken    bool      // ... because of an error and not of an orderly end
	endDue    time.Time // when the other side may learn of it
	stopped   bool      // the writer is gone: nothing more can be delivered
}

func newLine(from, to *net.TCPConn, delay time.Duration) *line {
	l := &line{from: from, to: to, delay: delay}
	l.changed = sync.NewCond(&l.mu)
	return l
}

func (l *line) read() {
	buf := make([]byte, readSize)
	for {
		n, err := l.from.Read(buf)
		due := time.Now().Add(l.delay)
		l.mu.Lock()
		for len(l.waiting) >= maxInFlight && !l.stopped {
			l.changed.Wait()
		}
		if l.stopped {
			l.mu.Unlock()
			return
		}
		if n > 0 {
			l.waiting = append(l.waiting, buf[:n]...)
			l.stretches = append(l.stretches, stretch{due, n})
		}
		if err != nil {
			l.ended, l.broken, l.endDue = true, !errors.Is(err, io.EOF), due
		}
		l.mu.Unlock()
		l.changed.Signal()
		if err != nil {
			return
		}
	}
}

func (l *line) write() {
	var out []byte
	for {
		var more bool
		out, more = l.take(out[:0])
		if !more {
			break
		}
		if _, err := l.to.Write(out); err != nil {
			l.stop()
			// The receiver is gone, so the sender loses its connection too.
			reset(l.from)
			reset(l.to)
			return
		}
		if cap(out) > 4*readSize {
			out = nil // a burst is over: 4,000 writers must not keep their largest buffer
		}
	}
	if l.broken {
		l.stop()
		reset(l.to)
		reset(l.from)
		return
	}
	_ = l.to.CloseWrite()
}

// take waits until something is due and moves all that is due to out. It is false at the end.
func (l *line) take(out []byte) ([]byte, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		for len(l.stretches) == 0 && !l.ended {
			l.changed.Wait()
		}
		first := l.endDue
		if len(l.stretches) > 0 {
			first = l.stretches[0].due
		}
		if wait := time.Until(first); wait > 0 {
			l.mu.Unlock()
			time.Sleep(wait)
			l.mu.Lock()
			continue
		}
		if len(l.stretches) == 0 {
			return out, false
		}
		return l.move(out), true
	}
}

// move takes every stretch that is due by now from the front of the line.
func (l *line) move(out []byte) []byte {
	now := time.Now()
	count, size := 0, 0
	for count < len(l.stretches) && !l.stretches[count].due.After(now) {
		size += l.stretches[count].size
		count++
	}
	full := len(l.waiting) >= maxInFlight
	out = append(out, l.waiting[:size]...)
	l.waiting = l.waiting[:copy(l.waiting, l.waiting[size:])]
	l.stretches = l.stretches[:copy(l.stretches, l.stretches[count:])]
	if len(l.waiting) == 0 && cap(l.waiting) > 4*readSize {
		l.waiting = nil
	}
	if full {
		l.changed.Signal()
	}
	return out
}

func (l *line) stop() {
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
	l.changed.Signal()
}
