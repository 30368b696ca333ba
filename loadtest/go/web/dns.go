package main

import (
	"encoding/binary"
	"net"
	"strings"
	"sync/atomic"
)

const (
	dnsHeader  = 12
	typeA      = 1
	dnsTTL     = 300
	noSuchName = 3
)

// resolver answers DNS questions over UDP: the addresses of this web's hosts, no other name, no other
// kind of record.
type resolver struct {
	web       *web
	questions atomic.Int64
}

func (r *resolver) serve(socket net.PacketConn) error {
	buffer := make([]byte, 1500)
	for {
		count, from, err := socket.ReadFrom(buffer)
		if err != nil {
			return err
		}
		if answer := r.answer(buffer[:count]); answer != nil {
			r.questions.Add(1)
			_, _ = socket.WriteTo(answer, from)
		}
	}
}

// answer gives the reply to a packet, nil if it is no question.
func (r *resolver) answer(packet []byte) []byte {
	if len(packet) < dnsHeader || packet[2]&0x80 != 0 || binary.BigEndian.Uint16(packet[4:]) != 1 {
		return nil
	}
	var labels []string
	at := dnsHeader
	for at < len(packet) && packet[at] != 0 {
		length := int(packet[at])
		if length > 63 || at+1+length > len(packet) {
			return nil
		}
		labels = append(labels, string(packet[at+1:at+1+length]))
		at += 1 + length
	}
	end := at + 5 // the root label, type, class
	if end > len(packet) {
		return nil
	}
	reply := append([]byte(nil), packet[:end]...)
	reply[2], reply[3] = 0x84|packet[2]&1, 0x80 // an authoritative answer
	clear(reply[6:dnsHeader])
	host := r.web.hostByName(strings.Join(labels, "."))
	if host < 0 {
		reply[3] |= noSuchName
		return reply
	}
	if binary.BigEndian.Uint16(packet[at+1:]) != typeA {
		return reply
	}
	reply[7] = 1
	reply = append(reply, 0xc0, dnsHeader, 0, typeA, 0, 1)
	reply = binary.BigEndian.AppendUint32(reply, dnsTTL)
	address := r.web.address(host).As4()
	return append(append(reply, 0, 4), address[:]...)
}
