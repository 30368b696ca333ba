package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	idleTime = 60 * time.Second
	// So many bytes of an answer are written at once.
	pieceBytes = 64 << 10
	dripPause  = 200 * time.Millisecond
	dripTimes  = 3000
	floodBytes = 4 << 20
	// Of an answer that nobody can use, in the ledger.
	noStatus = 0
)

// origin serves every host of the web. Its state: the ledger, and the number of connections.
//
// HTTP is spoken by hand: the origin shares two cores with the crawler that it is there to measure, and
// must know when the last byte of an answer went out.
type origin struct {
	web         *web
	ledger      *ledger
	connections atomic.Uint32
	buffers     sync.Pool
}

func newOrigin(w *web, l *ledger) *origin {
	return &origin{web: w, ledger: l, buffers: sync.Pool{New: func() any { return new([]byte) }}}
}

// listen listens on all addresses of 127.0.0.0/8 and on no other, or on all that the machine has.
func (w *web) listen(port int) (net.Listener, error) {
	if w.isOnNetwork {
		return net.Listen("tcp4", ":"+strconv.Itoa(port))
	}
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) {
			failed = syscall.SetsockoptString(int(fd), syscall.SOL_SOCKET, syscall.SO_BINDTODEVICE, "lo")
		})
		return errors.Join(err, failed)
	}}
	return config.Listen(context.Background(), "tcp4", "0.0.0.0:"+strconv.Itoa(port))
}

// accept serves connections until the listener fails; with TLS if there is a configuration of it.
func (o *origin) accept(listener net.Listener, secure *tls.Config) error {
	for {
		socket, err := listener.Accept()
		if errors.Is(err, syscall.EMFILE) {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if err != nil {
			return err
		}
		local := socket.LocalAddr().(*net.TCPAddr)
		number := o.connections.Add(1)
		if secure != nil {
			socket = tls.Server(socket, secure)
		}
		go o.serve(&session{origin: o, socket: socket, local: local.AddrPort().Addr().Unmap(), number: number})
	}
}

// session is one connection.
type session struct {
	origin *origin
	socket net.Conn
	reader *bufio.Reader
	local  netip.Addr
	number uint32
}

// request is what matters of one; its parts are gone with the next.
type request struct {
	arrived     int64
	target      string
	host        []byte
	agent       []byte
	closes      bool
	takesPacked bool
}

func (o *origin) serve(s *session) {
	defer s.socket.Close()
	s.reader = bufio.NewReaderSize(s.socket, 4096)
	for {
		_ = s.socket.SetReadDeadline(time.Now().Add(idleTime))
		asked, err := s.read()
		if err != nil {
			return
		}
		if isOpen := s.answer(asked); !isOpen {
			return
		}
	}
}

func (s *session) read() (request, error) {
	if _, err := s.reader.Peek(1); err != nil {
		return request{}, err
	}
	asked := request{arrived: s.origin.ledger.now()}
	line, err := s.reader.ReadSlice('\n')
	if err != nil {
		return request{}, err
	}
	parts := bytes.Fields(line)
	if len(parts) != 3 || string(parts[0]) != http.MethodGet {
		return request{}, errors.New("GET is wanted")
	}
	asked.target = string(parts[1])
	asked.closes = s.origin.web.closes || string(parts[2]) == "HTTP/1.0"
	for {
		line, err := s.reader.ReadSlice('\n')
		if err != nil {
			return request{}, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return asked, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case len(name) == 4 && bytes.EqualFold(name, []byte("host")):
			asked.host = append([]byte(nil), value...)
		case len(name) == 10 && bytes.EqualFold(name, []byte("user-agent")):
			asked.agent = append([]byte(nil), value...)
		case len(name) == 10 && bytes.EqualFold(name, []byte("connection")):
			asked.closes = asked.closes || bytes.EqualFold(value, []byte("close"))
		case len(name) == 15 && bytes.EqualFold(name, []byte("accept-encoding")):
			asked.takesPacked = bytes.Contains(value, []byte("gzip"))
		}
	}
}

// answer answers one request and notes it; whether another may follow.
func (s *session) answer(asked request) bool {
	w := s.origin.web
	name, _, _ := strings.Cut(string(asked.host), ":")
	host := w.hostByName(name)
	path, query, _ := strings.Cut(asked.target, "?")
	noted := visit{
		host: int32(host), connection: s.number, arrived: asked.arrived, path: asked.target, page: asked.target,
		isForbidden: host >= 0 && w.isForbidden(host, path),
	}
	if host < 0 || w.address(host) != s.local {
		return s.send(asked, &noted, resource{status: 421, contentType: "text/plain", body: "not this host\n"}, 0)
	}
	if path == "/robots.txt" || path == sharedRobots {
		noted.isRobots, noted.isForbidden = true, false
		return s.send(asked, &noted, s.robots(host, path), w.latencyMs/1000)
	}
	if kind := w.busy[host]; kind != neverBusy && s.origin.ledger.triesBefore(host, "busy") < busyTimes {
		answer, wait := sendAway(kind, time.Now())
		if wait > 0 {
			noted.blocked = s.origin.ledger.now() + int64(wait)
		}
		return s.send(asked, &noted, answer, 0)
	}
	if page := w.pageByPath(host, path, query); page >= 0 {
		return s.page(asked, &noted, host, page)
	}
	found, isThere := w.oddResource(host, path, query)
	if !isThere {
		found = resource{status: 404, contentType: "text/html", body: leaf("Not here", "")}
		return s.send(asked, &noted, found, 0)
	}
	noted.page = found.path
	if found.failures > 0 && s.origin.ledger.triesBefore(host, found.path) < found.failures {
		found = resource{status: 500, contentType: "text/html", body: leaf("Try again", "")}
	}
	return s.send(asked, &noted, found, w.latencyMs/1000)
}

func (s *session) robots(host int, path string) resource {
	if path == sharedRobots {
		return resource{status: 200, contentType: "text/plain", body: privateRules}
	}
	before := 0
	if s.origin.web.robots[host] == robotsLateComer {
		before = s.origin.ledger.triesBefore(host, path)
	}
	return s.origin.web.robotsAnswer(host, before)
}

// page sends a page of the tree: the way of nearly every request.
func (s *session) page(asked request, noted *visit, host, page int) bool {
	w := s.origin.web
	if strings.Contains(asked.target, "?") {
		noted.page = string(w.appendPath(nil, host, page))
	}
	if !s.wait(w.latencyOf(host, page)) {
		return s.note(asked, noted, noStatus)
	}
	room := s.origin.buffers.Get().(*[]byte)
	defer s.origin.buffers.Put(room)
	const headRoom = 160
	if cap(*room) < headRoom {
		*room = make([]byte, headRoom, 64<<10)
	}
	// The head goes directly before the body, whose length it tells.
	text := w.appendPage((*room)[:headRoom], host, page)
	*room = text
	body := len(text) - headRoom
	var head [headRoom]byte
	line := append(head[:0], "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: "...)
	line = strconv.AppendInt(line, int64(body), 10)
	line = append(line, choose(asked.closes, "\r\nConnection: close\r\n\r\n", "\r\n\r\n")...)
	copy(text[headRoom-len(line):], line)
	noted.sent = int64(body)
	return s.write(asked, noted, text[headRoom-len(line):], 200)
}

// send sends anything else.
func (s *session) send(asked request, noted *visit, answer resource, latencyS float64) bool {
	if !s.wait(latencyS) {
		return s.note(asked, noted, noStatus)
	}
	switch answer.manner {
	case "drip":
		return s.drip(asked, noted)
	case "flood":
		head := "HTTP/1.1 200 OK\r\n" + strings.Repeat("X-Flood: "+strings.Repeat("~", 1000)+"\r\n", floodBytes/1000)
		return s.write(asked, noted, []byte(head+"Content-Length: 0\r\n\r\n"), noStatus)
	}
	if answer.isPacked && !asked.takesPacked {
		answer = resource{status: 406}
	}
	text := []byte("HTTP/1.1 " + strconv.Itoa(answer.status) + " " + http.StatusText(answer.status) + "\r\n")
	if answer.contentType != "" {
		text = append(text, "Content-Type: "+answer.contentType+"\r\n"...)
	}
	if answer.location != "" {
		text = append(text, "Location: "+answer.location+"\r\n"...)
	}
	text = append(text, answer.header...)
	text = append(text, "Content-Length: "+strconv.Itoa(len(answer.body))+"\r\n"...)
	text = append(text, choose(asked.closes, "Connection: close\r\n\r\n", "\r\n")...)
	noted.sent = int64(len(answer.body))
	return s.write(asked, noted, append(text, answer.body...), answer.status)
}

// write sends the answer. Its end is taken just before its last piece goes out, or before the one that
// did not: this process may have to wait for a processor afterwards, and a crawler would seem to come
// back sooner than it did.
func (s *session) write(asked request, noted *visit, text []byte, status int) bool {
	for len(text) > pieceBytes {
		noted.ended = s.origin.ledger.now()
		if _, err := s.socket.Write(text[:pieceBytes]); err != nil {
			s.note(asked, noted, status)
			return false
		}
		text = text[pieceBytes:]
	}
	noted.ended = s.origin.ledger.now()
	isOpen := s.note(asked, noted, status)
	_, err := s.socket.Write(text)
	return err == nil && isOpen
}

// drip sends a byte now and then, until the other side has enough of it.
func (s *session) drip(asked request, noted *visit) bool {
	_, err := s.socket.Write([]byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<p>"))
	for range dripTimes {
		noted.ended = s.origin.ledger.now()
		if err != nil || !s.wait(dripPause.Seconds()) {
			break
		}
		_, err = s.socket.Write([]byte("."))
	}
	return s.note(asked, noted, noStatus)
}

// note puts the visit down; before its answer is out, so that it is there when the crawler has it.
func (s *session) note(asked request, noted *visit, status int) bool {
	noted.status = uint16(status)
	if noted.ended == 0 {
		noted.ended = s.origin.ledger.now()
	}
	s.origin.ledger.add(*noted, asked.agent)
	return !asked.closes && status != noStatus
}

// wait lets time pass; false when the other side has gone away meanwhile.
func (s *session) wait(seconds float64) bool {
	if seconds <= 0 {
		return true
	}
	until := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	_ = s.socket.SetReadDeadline(until)
	_, err := s.reader.Peek(1)
	if err == nil { // the next request is there already
		time.Sleep(time.Until(until))
		return true
	}
	return errors.Is(err, os.ErrDeadlineExceeded)
}
