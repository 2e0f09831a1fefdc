package kafka_test

import (
	"context"
	"crypto/tls"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/wickerwork/wicker/testkit/kafka"
)

// TestSecurity has one broker for all: starting a real one takes seconds.
func TestSecurity(t *testing.T) {
	users := []kafka.User{{Name: "alice", Password: "wonder-land"}, {Name: "bob", Password: "b;'$(x)"}}
	kafka.EachOwn(t, kafka.Options{TLS: true, Users: users}, func(t *testing.T, b *kafka.Broker) {
		require.Equal(t, users, b.Users())
		topic := kafka.Name(t)
		require.NoError(t, b.Client(t).CreateTopic(t.Context(), topic, 1, nil))

		call := func(t *testing.T, timeout time.Duration, mechanism, user, password string) error {
			t.Helper()
			c, err := b.DialAs(mechanism, user, password)
			require.NoError(t, err)
			defer c.Close()
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			_, err = c.EndOffsets(ctx, kafka.ReadUncommitted, topic)
			return err
		}
		accepts := func(t *testing.T, mechanism, user, password string) {
			t.Helper()
			require.NoError(t, call(t, 30*time.Second, mechanism, user, password))
		}
		// The fake hangs up without a word, and the client goes on trying.
		refuses := func(t *testing.T, mechanism, user, password string) {
			t.Helper()
			require.Error(t, call(t, time.Second, mechanism, user, password))
		}
		for _, mechanism := range []string{kafka.Plain, kafka.ScramSHA256, kafka.ScramSHA512} {
			t.Run(mechanism, func(t *testing.T) {
				for _, u := range users {
					accepts(t, mechanism, u.Name, u.Password)
				}
				refuses(t, mechanism, "alice", "looking-glass")
				refuses(t, mechanism, "carol", "wonder-land")
			})
		}
		t.Run("mechanism", func(t *testing.T) {
			_, err := b.DialAs("GSSAPI", "alice", "wonder-land")
			require.EqualError(t, err, `testkit/kafka: mechanism ("GSSAPI") must be PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512`)
		})
		t.Run("anonymous", func(t *testing.T) { refuses(t, "", "", "") })
		t.Run("plaintext", func(t *testing.T) {
			cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.RequestRetries(0), kgo.RetryTimeout(time.Second))
			require.NoError(t, err)
			defer cl.Close()
			require.Error(t, cl.Ping(t.Context()))
		})
		t.Run("certificate", func(t *testing.T) {
			conn, err := tls.Dial("tcp", b.Addr(), b.TLS())
			require.NoError(t, err)
			require.NoError(t, conn.Close())
			_, err = tls.Dial("tcp", b.Addr(), &tls.Config{})
			require.ErrorContains(t, err, "unknown authority")
			// Each caller has a configuration of its own.
			b.TLS().RootCAs = nil
			require.NotNil(t, b.TLS().RootCAs)
		})
		t.Run("restart", func(t *testing.T) {
			require.NoError(t, b.Restart(t.Context()))
			accepts(t, kafka.ScramSHA256, "bob", users[1].Password)
			refuses(t, kafka.ScramSHA512, "bob", "wonder-land")
		})
	})
}
