package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"github.com/wickerwork/wicker/exec/commitlog"
)

func (s *SASL) mechanism() (sasl.Mechanism, error) {
	switch s.Mechanism {
	case ScramSHA256:
		return scram.Mechanism(scram.SHA256, s.Username, s.Password)
	case ScramSHA512:
		return scram.Mechanism(scram.SHA512, s.Username, s.Password)
	default:
		return plain.Mechanism{Username: s.Username, Password: s.Password}, nil
	}
}

// authenticate runs the SASL exchange. Refused credentials are fatal: trying again does not help.
func (c *conn) authenticate(ctx context.Context, s *SASL) error {
	refused := func(err error) error {
		return &commitlog.Error{Op: "authenticate", Partition: -1, Class: commitlog.Fatal,
			Err: fmt.Errorf("broker %s, %s user %q: %w", c.addr, s.Mechanism, s.Username, err)}
	}
	mech, err := s.mechanism()
	if err != nil {
		return refused(err)
	}
	msg, err := c.roundTrip(ctx, &saslhandshake.Request{Mechanism: s.Mechanism})
	if err != nil {
		return err
	}
	if res := msg.(*saslhandshake.Response); res.ErrorCode != 0 {
		name, _ := lookup(res.ErrorCode, inCall)
		return refused(fmt.Errorf("%s: the broker offers %s", name, strings.Join(res.Mechanisms, ", ")))
	}
	state, bytes, err := mech.Start(ctx)
	if err != nil {
		return refused(err)
	}
	for done := false; !done; {
		msg, err := c.roundTrip(ctx, &saslauthenticate.Request{AuthBytes: bytes})
		if hungUp(err) {
			return hint(err, fmt.Sprintf("%s user %q: are the credentials right?", s.Mechanism, s.Username))
		}
		if err != nil {
			return err
		}
		res := msg.(*saslauthenticate.Response)
		if res.ErrorCode != 0 {
			name, _ := lookup(res.ErrorCode, inCall)
			if res.ErrorMessage != "" {
				name += ": " + res.ErrorMessage
			}
			return refused(errors.New(name))
		}
		if res.SessionLifetimeMs > 0 {
			c.expires = time.Now().Add(time.Duration(res.SessionLifetimeMs) * time.Millisecond * sessionShare / 100)
		}
		if done, bytes, err = state.Next(ctx, res.AuthBytes); err != nil {
			return refused(err)
		}
	}
	return nil
}
