package kafka

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"
)

// certificates are those of one broker: an authority made for it, and its own.
type certificates struct {
	authority *x509.CertPool
	// keystore is the broker's key and certificate chain, in PEM as Kafka takes it.
	keystore []byte
	server   tls.Certificate
}

// newCertificates makes an authority and a certificate for 127.0.0.1, good for a day.
func newCertificates() (*certificates, error) {
	serial, now := big.NewInt(time.Now().UnixNano()), time.Now()
	authority := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: "wicker test authority"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(24 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	authorityDER, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		return nil, err
	}
	if authority, err = x509.ParseCertificate(authorityDER); err != nil {
		return nil, err
	}

	broker := &x509.Certificate{
		SerialNumber: new(big.Int).Add(serial, big.NewInt(1)),
		Subject:      pkix.Name{CommonName: "127.0.0.1"},
		NotBefore:    authority.NotBefore,
		NotAfter:     authority.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:     []string{"localhost"},
	}
	brokerKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	brokerDER, err := x509.CreateCertificate(rand.Reader, broker, authority, brokerKey.Public(), authorityKey)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(brokerKey)
	if err != nil {
		return nil, err
	}

	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	chain := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: brokerDER}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authorityDER})...)
	c := &certificates{authority: x509.NewCertPool(), keystore: bytes.Join([][]byte{key, chain}, nil)}
	c.authority.AddCert(authority)
	c.server, err = tls.X509KeyPair(chain, key)
	return c, err
}

// client is what trusts the broker.
func (c *certificates) client() *tls.Config { return &tls.Config{RootCAs: c.authority} }
