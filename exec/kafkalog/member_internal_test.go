package kafkalog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// A refusal that comes late, of a membership that is lost already, says nothing of the id that the member was given since: the group
// waits for whoever has one, up to a session.
func TestLateRefusalKeepsTheNewID(t *testing.T) {
	unknown := kafkaErr("heartbeat", inGroup, codeUnknownMember)
	for _, c := range []struct {
		name string
		id   string // the member's by now
		who  bool   // refused under the membership "old", or without one
		want string
	}{
		{"of the id that it has", "old", true, ""},
		{"of one before", "new", true, "new"},
		{"without a membership", "new", false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &member{cfg: commitlog.MemberConfig{Group: "g", SessionTimeout: time.Minute}, id: c.id, signal: make(chan struct{}, 1)}
			var who *identity
			if c.who {
				who = newIdentity(&m.cfg, "old", m.expired)
			}
			require.ErrorIs(t, m.took(who, unknown), unknown)
			require.Equal(t, c.want, m.id)
		})
	}
}
