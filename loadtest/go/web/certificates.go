package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"sync"
	"time"
)

// authority makes the hosts' certificates when they are first asked for. Its state: those it has made.
type authority struct {
	web         *web
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	lock        sync.Mutex
	made        map[int]*tls.Certificate
}

func newAuthority(w *web) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Synthetic Web"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(0, 1, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(signed)
	return &authority{web: w, certificate: certificate, key: key, made: map[int]*tls.Certificate{}}, err
}

func (a *authority) writeTo(path string) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw}), 0o644)
}

func (a *authority) config() *tls.Config {
	return &tls.Config{
		NextProtos: []string{"http/1.1"},
		// The cheapest that every client has.
		CurvePreferences: []tls.CurveID{tls.X25519},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			host := a.web.hostByName(hello.ServerName)
			if host < 0 {
				return nil, fmt.Errorf("no host %q", hello.ServerName)
			}
			return a.of(host)
		},
	}
}

func (a *authority) of(host int) (*tls.Certificate, error) {
	a.lock.Lock()
	defer a.lock.Unlock()
	if made := a.made[host]; made != nil {
		return made, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(int64(host) + 2), Subject: pkix.Name{CommonName: hostName(host)},
		DNSNames:  []string{hostName(host)},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().AddDate(0, 1, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if a.web.hasBadTLS(host) {
		template.NotAfter = time.Now().Add(-time.Hour)
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	made := &tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: key}
	a.made[host] = made
	return made, nil
}

// hasBadTLS tells whether the host's certificate has expired.
func (w *web) hasBadTLS(host int) bool {
	d := w.dice(forTLS, host, 0)
	return w.hasTLS && w.extras["bad-tls"] && d.below(25) == 0
}
