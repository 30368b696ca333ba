// Command relay is a TCP relay that makes the loopback as far away as a real network: what arrives
// on one side leaves on the other side half a round trip later, in order, both ways. devservers/relay.py
// starts it. Opening the upstream connection is not delayed; everything sent through it is.
//
// It shares two cores with the servers and clients that are measured through it, so it is one thread
// with one epoll: what is readable is read, what is due is written, then it rests for a moment, so that
// what comes in several pieces leaves in one. A delay of 0 takes the same path and pays the same cost.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

const (
	// How long it rests between two looks: a fiftieth of the round trip, but no less than this. It adds
	// that much at most to each direction.
	shortestRest     = 250 * time.Microsecond
	restsInRoundTrip = 50
	// Bytes in flight per direction before reading stops, as a full window would make it.
	maxInFlight = 1 << 20
	readSize    = 64 << 10
)

func main() {
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	listen := flag.String("listen", "127.0.0.1:0", "address to listen on")
	to := flag.String("to", "", "address to relay to, host:port")
	rtt := flag.Duration("rtt", 0, "round trip to add; each direction waits for half of it")
	flag.Parse()
	upstream, err := net.ResolveTCPAddr("tcp4", *to)
	if *to == "" || err != nil || *rtt < 0 || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	runtime.LockOSThread()
	r, port, err := newRelay(*listen, upstream, *rtt)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(port)
	r.run()
}

// line is one direction of one connection: from is read, to is written.
type line struct {
	from, to   int
	twin       *line
	inFlight   int    // bytes read and not yet written
	out        []byte // bytes that are due
	isDirty    bool   // out has grown since the last flush
	hasEnded   bool   // the last byte has been read
	isFinished bool   // ... and the other side has been told
	isPaused   bool   // too much is in flight: not reading
	isBlocked  bool   // the receiver's buffer is full: waiting to write
	isGone     bool   // both sockets are closed
}

// parcel is what one read gave: bytes, or the end of the line, in order or with an error.
type parcel struct {
	due      time.Time
	line     *line
	bytes    []byte
	isEnd    bool
	isBroken bool
}

// relay is all of it. As every parcel waits for the same time, they are due in the order of arrival.
type relay struct {
	epoll, listener int
	upstream        syscall.Sockaddr
	delay, rest     time.Duration
	parcels         []parcel
	reads           map[int]*line // by the descriptor that the line reads from
	dirty           []*line
	buffer          []byte
}

func newRelay(listen string, upstream *net.TCPAddr, roundTrip time.Duration) (*relay, int, error) {
	address, err := net.ResolveTCPAddr("tcp4", listen)
	if err != nil {
		return nil, 0, err
	}
	listener, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, 0, err
	}
	_ = syscall.SetsockoptInt(listener, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err := syscall.Bind(listener, sockaddr(address)); err != nil {
		return nil, 0, err
	}
	if err := syscall.Listen(listener, 4096); err != nil {
		return nil, 0, err
	}
	bound, err := syscall.Getsockname(listener)
	if err != nil {
		return nil, 0, err
	}
	epoll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, 0, err
	}
	r := &relay{
		epoll: epoll, listener: listener, upstream: sockaddr(upstream),
		delay: roundTrip / 2, rest: max(shortestRest, roundTrip/restsInRoundTrip),
		reads: map[int]*line{}, buffer: make([]byte, readSize),
	}
	r.watch(syscall.EPOLL_CTL_ADD, listener, syscall.EPOLLIN)
	return r, bound.(*syscall.SockaddrInet4).Port, nil
}

func sockaddr(address *net.TCPAddr) *syscall.SockaddrInet4 {
	result := &syscall.SockaddrInet4{Port: address.Port}
	copy(result.Addr[:], address.IP.To4())
	return result
}

func (r *relay) run() {
	events := make([]syscall.EpollEvent, 4096)
	pause := syscall.NsecToTimespec(r.rest.Nanoseconds())
	for {
		count, err := syscall.EpollWait(r.epoll, events, r.patience())
		if err != nil && err != syscall.EINTR {
			log.Fatal(err)
		}
		now := time.Now()
		for _, event := range events[:max(count, 0)] {
			r.serve(int(event.Fd), event.Events, now)
		}
		r.deliver(time.Now())
		// Raw: there is no other goroutine, and a call that Go knows of wakes its scheduler each time.
		_, _, _ = syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&pause)), 0, 0)
	}
}

// patience is how long to wait for news, in milliseconds: until the next parcel is due, at most.
func (r *relay) patience() int {
	if len(r.parcels) == 0 {
		return -1
	}
	// Rounded down; the last fraction of a millisecond goes by in rests.
	return max(0, int(time.Until(r.parcels[0].due)/time.Millisecond))
}

func (r *relay) serve(fd int, events uint32, now time.Time) {
	if fd == r.listener {
		r.accept()
		return
	}
	reading := r.reads[fd]
	if reading == nil {
		return
	}
	if events&syscall.EPOLLOUT != 0 {
		reading.twin.isBlocked = false
		r.mark(reading.twin)
	}
	if events&(syscall.EPOLLIN|syscall.EPOLLHUP|syscall.EPOLLERR) != 0 && !reading.isPaused && !reading.hasEnded {
		r.read(reading, now)
	}
}

func (r *relay) accept() {
	for {
		client, _, err := syscall.Accept4(r.listener, syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
		if err != nil {
			if err != syscall.EAGAIN {
				// Out of descriptors, most likely: the ones that close make room again.
				log.Print(err)
			}
			return
		}
		server, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err == nil {
			// On the loopback this is done, one way or the other, when it returns.
			err = syscall.Connect(server, r.upstream)
		}
		if err != nil {
			log.Print(err)
			reset(client)
			_ = syscall.Close(server)
			continue
		}
		_ = syscall.SetNonblock(server, true)
		r.join(client, server)
	}
}

func (r *relay) join(client, server int) {
	there := &line{from: client, to: server}
	back := &line{from: server, to: client, twin: there}
	there.twin = back
	for _, way := range []*line{there, back} {
		_ = syscall.SetsockoptInt(way.to, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
		r.reads[way.from] = way
		r.watch(syscall.EPOLL_CTL_ADD, way.from, syscall.EPOLLIN)
	}
}

func (r *relay) read(l *line, now time.Time) {
	count, err := syscall.Read(l.from, r.buffer)
	switch {
	case count > 0:
		bytes := make([]byte, count)
		copy(bytes, r.buffer)
		l.inFlight += count
		r.parcels = append(r.parcels, parcel{due: now.Add(r.delay), line: l, bytes: bytes})
		if l.inFlight >= maxInFlight {
			l.isPaused = true
			r.rewatch(l.from)
		}
	case err == syscall.EAGAIN || err == syscall.EINTR:
	default:
		l.hasEnded = true
		r.rewatch(l.from)
		r.parcels = append(r.parcels, parcel{due: now.Add(r.delay), line: l, isEnd: true, isBroken: err != nil})
	}
}

// deliver hands every parcel that is due to its line and writes what the lines have.
func (r *relay) deliver(now time.Time) {
	done := 0
	for done < len(r.parcels) && !r.parcels[done].due.After(now) {
		one := r.parcels[done]
		r.parcels[done] = parcel{}
		done++
		if one.line.isGone {
			continue
		}
		if one.isBroken {
			r.breakOff(one.line)
			continue
		}
		one.line.out = append(one.line.out, one.bytes...)
		one.line.isFinished = one.line.isFinished || one.isEnd
		r.mark(one.line)
	}
	r.parcels = r.parcels[done:]
	for _, l := range r.dirty {
		l.isDirty = false
		r.flush(l)
	}
	r.dirty = r.dirty[:0]
}

func (r *relay) mark(l *line) {
	if !l.isDirty {
		l.isDirty = true
		r.dirty = append(r.dirty, l)
	}
}

func (r *relay) flush(l *line) {
	for len(l.out) > 0 && !l.isBlocked && !l.isGone {
		count, err := syscall.Write(l.to, l.out)
		if err == syscall.EAGAIN {
			l.isBlocked = true
			r.rewatch(l.to)
			return
		}
		if err != nil && err != syscall.EINTR {
			// The receiver is gone, so the sender loses its connection too.
			r.breakOff(l)
			return
		}
		l.out = l.out[max(count, 0):]
		l.inFlight -= max(count, 0)
	}
	if l.isGone || len(l.out) > 0 {
		return
	}
	l.out = nil
	if l.isPaused {
		l.isPaused = false
		r.rewatch(l.from)
	}
	if l.isFinished {
		_ = syscall.Shutdown(l.to, syscall.SHUT_WR)
		if l.twin.isFinished && len(l.twin.out) == 0 {
			r.close(l)
		}
	}
}

// breakOff ends a connection that broke with RST instead of FIN: it did not finish.
func (r *relay) breakOff(l *line) {
	if !l.isGone {
		r.forget(l)
		reset(l.from)
		reset(l.to)
	}
}

func (r *relay) close(l *line) {
	if !l.isGone {
		r.forget(l)
		_ = syscall.Close(l.from)
		_ = syscall.Close(l.to)
	}
}

func (r *relay) forget(l *line) {
	l.isGone, l.twin.isGone = true, true
	delete(r.reads, l.from)
	delete(r.reads, l.to)
}

// rewatch asks for what a socket's two lines want of it now: the one that reads, the one that writes.
func (r *relay) rewatch(fd int) {
	reading := r.reads[fd]
	if reading == nil {
		return
	}
	var wanted uint32
	if !reading.isPaused && !reading.hasEnded {
		wanted |= syscall.EPOLLIN
	}
	if reading.twin.isBlocked {
		wanted |= syscall.EPOLLOUT
	}
	r.watch(syscall.EPOLL_CTL_MOD, fd, wanted)
}

func (r *relay) watch(operation, fd int, wanted uint32) {
	event := syscall.EpollEvent{Events: wanted, Fd: int32(fd)}
	if err := syscall.EpollCtl(r.epoll, operation, fd, &event); err != nil {
		log.Print(err)
	}
}

func reset(fd int) {
	_ = syscall.SetsockoptLinger(fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1, Linger: 0})
	_ = syscall.Close(fd)
}
