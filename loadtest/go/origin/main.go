// Command origin serves pages of one size over HTTP and over TLS, after a think time, and prints its
// ports as JSON when it listens. loadtest/origin.py builds and starts it; it ends with its input.
//
// A page begins with its own path, so that whoever fetches it can tell whether it is the right one.
// /close/... closes the connection after the answer, any other path keeps it open.
package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	maxPage = 1 << 20
	// Text of one page, repeated; compressible as real pages are, though nothing here compresses.
	filler = "<p>Some words of a page, with a <a href=\"/other\">link</a> among them.</p>\n"
)

// announcement is what is printed.
type announcement struct {
	HTTP      int    `json:"http_port"`
	HTTPS     int    `json:"https_port"`
	Authority string `json:"authority"` // PEM of who signed the certificate
}

func main() {
	host := flag.String("host", "*.bench.test", "whom the certificate is for")
	think := flag.Duration("think", 20*time.Millisecond, "before each answer")
	flag.Parse()
	log.SetOutput(io.Discard) // handshakes that a client gave up
	certificate, authority, err := certify(*host)
	if err != nil {
		fail(err)
	}
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fail(err)
	}
	secure, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fail(err)
	}
	pages := bytes.Repeat([]byte(filler), maxPage/len(filler)+1)
	server := &http.Server{Handler: answerAfter(*think, pages)}
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"}}
	go server.Serve(plain)
	go server.Serve(tls.NewListener(secure, config))
	json.NewEncoder(os.Stdout).Encode(announcement{port(plain), port(secure), authority})
	io.Copy(io.Discard, os.Stdin)
}

// answerAfter answers /keep/SIZE/NAME and /close/SIZE/NAME with so many bytes.
func answerAfter(think time.Duration, pages []byte) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		parts := strings.SplitN(in.URL.Path, "/", 4)
		if len(parts) != 4 {
			http.NotFound(out, in)
			return
		}
		size, err := strconv.Atoi(parts[2])
		mark := "<!doctype html><title>" + in.URL.Path + "</title>\n"
		if err != nil || size < len(mark) || size > maxPage {
			http.NotFound(out, in)
			return
		}
		time.Sleep(think)
		header := out.Header()
		header.Set("Content-Type", "text/html; charset=utf-8")
		header.Set("Content-Length", parts[2])
		if parts[1] == "close" {
			header.Set("Connection", "close")
		}
		io.WriteString(out, mark)
		out.Write(pages[:size-len(mark)])
	})
}

// certify makes an authority and a certificate by it, as sites have them.
func certify(host string) (tls.Certificate, string, error) {
	none := tls.Certificate{}
	root := template(1, "origin's authority")
	root.IsCA, root.BasicConstraintsValid, root.KeyUsage = true, true, x509.KeyUsageCertSign
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return none, "", err
	}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, &rootKey.PublicKey, rootKey)
	if err != nil {
		return none, "", err
	}
	site := template(2, "origin")
	site.DNSNames = []string{host}
	site.KeyUsage, site.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return none, "", err
	}
	siteDER, err := x509.CreateCertificate(rand.Reader, site, root, &key.PublicKey, rootKey)
	if err != nil {
		return none, "", err
	}
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootDER})
	return tls.Certificate{Certificate: [][]byte{siteDER}, PrivateKey: key}, string(authority), nil
}

func template(serial int64, name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
	}
}

func port(listener net.Listener) int {
	return listener.Addr().(*net.TCPAddr).Port
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "origin:", err)
	os.Exit(1)
}
