package kafka

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// SASL mechanisms, as [Broker.DialAs] takes them. A broker with users offers all of them.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
)

// User may connect to a broker, by each of the mechanisms.
type User struct {
	Name     string
	Password string
}

// Options says how a broker is to be. The zero value is a broker in a directory that goes
// with it, on a free port of the loopback, without TLS and without users.
type Options struct {
	// Partitions is the count of a topic that is created without one. Default 1.
	Partitions int
	// TLS encrypts the client's connections, with a certificate that is made for this broker.
	// [Broker.TLS] trusts it.
	TLS bool
	// Users, if any, are those that may connect; without any, everybody may.
	Users []User
	// Properties are further settings of the server, by their names in server.properties.
	// They win over what this package sets. An embedded broker knows few of them.
	Properties map[string]string
	// Dir is where the broker keeps its data and its log. A broker finds again what an earlier
	// one left there; only one at a time may use it, and embedded and real ones cannot share.
	// Default: a temporary directory that Close removes.
	Dir string
	// Port is where it listens, on 127.0.0.1. Default: a free one.
	Port int
	// HeapBytes is the heap of a real broker's JVM. Default 512 MiB.
	HeapBytes int64
	// JVM holds the flags of a real broker's JVM other than its heap. Default: those that make
	// it start fast. What is measured should set its own.
	JVM []string
	// StartTimeout bounds how long starting may take, without the download of Kafka.
	// Default 2 minutes; on an idle machine it takes 1 ms and 4 s.
	StartTimeout time.Duration
}

func (o Options) withDefaults() Options {
	if o.Partitions == 0 {
		o.Partitions = 1
	}
	if o.HeapBytes == 0 {
		o.HeapBytes = 512 << 20
	}
	if o.JVM == nil {
		o.JVM = []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"}
	}
	if o.StartTimeout == 0 {
		o.StartTimeout = 2 * time.Minute
	}
	return o
}

// Validate reports every field whose value cannot work, joined.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(o.Partitions >= 1, "Partitions (%d) must be >= 1", o.Partitions)
	check(o.Port >= 0 && o.Port < 1<<16, "Port (%d) must be from 0 to 65535", o.Port)
	check(o.HeapBytes >= 64<<20, "HeapBytes (%d) must be >= %d", o.HeapBytes, 64<<20)
	check(o.StartTimeout > 0, "StartTimeout (%v) must be > 0", o.StartTimeout)
	for i, u := range o.Users {
		// Names and passwords end up in a JAAS configuration and in an argument list.
		check(u.Name != "" && !strings.ContainsAny(u.Name, "\",=[]\\\n "), "Users[%d].Name (%q) must not be empty and have none of \" , = [ ] \\ space", i, u.Name)
		check(u.Password != "" && !strings.ContainsAny(u.Password, "\",=[]\\\n "), "Users[%d].Password must not be empty and have none of \" , = [ ] \\ space", i)
	}
	return errors.Join(errs...)
}
