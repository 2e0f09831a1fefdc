package kafkalog

import (
	"context"
	"errors"
	"time"

	"github.com/segmentio/kafka-go/protocol"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// beat sends heartbeats from the first answered JoinGroup until the member is closed. They wait for nothing: not for
// a JoinGroup or SyncGroup that the coordinator holds, not for the owner (L6). Each goes in the latest generation
// that is known.
func (m *member) beat() {
	wait, tries := m.cfg.HeartbeatInterval, 0
	for sleep(m.ctx, wait) == nil {
		wait = m.cfg.HeartbeatInterval
		m.mu.Lock()
		who := m.who
		m.mu.Unlock()
		if who == nil {
			continue // a Join has to find a new place first
		}
		generation, _, lost := who.state()
		if lost || generation < 0 { // or the coordinator knows its name and no more
			continue
		}
		asked := time.Now()
		err := m.beatOnce(who.id, generation)
		if m.ctx.Err() != nil {
			return
		}
		if !m.heard(who, generation, asked, err) {
			if tries++; tries == 1 {
				m.log.cfg.Logger.Warn("heartbeat", "group", m.cfg.Group, "member", who.id, "generation", generation, "error", err.Error())
				// A Join that is held cannot tell whether its connection lives. One that does not is found out
				// here; the Join is asked for again.
				if code(err) == 0 {
					m.joins.sever(errNoHeartbeat)
				}
			}
			wait = min(wait, backoff(tries, err))
			continue
		}
		tries = 0
	}
}

// errNoHeartbeat is why a connection is given up on which a Join is held.
var errNoHeartbeat = errors.New("a heartbeat to its broker was not answered")

// errAnswerLost is why a connection is given up on which a Join is held that the coordinator has answered otherwise.
var errAnswerLost = errors.New("the group has gone on and this connection was not told")

// heard takes in what a heartbeat was answered. It returns false if it was no answer.
func (m *member) heard(who *identity, generation int32, asked time.Time, err error) bool {
	logger := m.log.cfg.Logger.With("group", m.cfg.Group, "member", who.id, "generation", generation)
	m.mu.Lock()
	defer m.mu.Unlock()
	current, _, _ := who.state()
	passed := m.passed
	m.passed = time.Time{}
	switch c := code(err); {
	case c == codeRebalanceInProgress:
		who.answered(asked)
		if m.who == who && current == generation {
			m.notifyLocked()
		}
		return true
	case c == codeIllegalGeneration:
		// It was under way while a Join went on to a newer generation, or is ahead of that Join's answer. Only
		// a static member that others went on without is told so otherwise: it has its place still.
		who.answered(asked)
		switch {
		case m.who != who || current != generation:
		case !m.joining && m.flight == nil:
			logger.Warn("the group went on without this member", "error", err.Error())
			m.notifyLocked()
		case passed.IsZero():
			m.passed = asked
		case asked.Sub(passed) < answerLost:
			m.passed = passed
		default:
			// The group waits for this member to go on from an answer that is not coming: of two JoinGroups of one
			// member, the first on a connection that broke, the coordinator may have taken the first for the later one,
			// and it answers only that.
			logger.Warn("join group is asked for again", "cause", "no answer though the group has gone on")
			m.joins.sever(errAnswerLost)
			m.notifyLocked()
		}
		return true
	case membershipLost(c):
		logger.Warn("membership lost", "error", err.Error())
		m.loseLocked(who, err)
		return true
	}
	if err == nil {
		who.answered(asked)
		return true
	}
	if classify(err) != commitlog.Retriable {
		m.notifyLocked() // Join meets it too, and tells the owner
	}
	return false
}

// beatOnce sends a heartbeat. One that is not answered is given up for the next while the session lasts.
func (m *member) beatOnce(id string, generation int32) error {
	timeout := heartbeatTimeout(m.cfg.SessionTimeout, m.log.cfg.RequestTimeout)
	ctx, cancel := context.WithTimeout(m.ctx, timeout)
	defer cancel()
	c, err := m.tell(ctx, timeout, protocol.Heartbeat, func(b []byte, clientID string) []byte {
		return appendHeartbeat(b, clientID, m.cfg.Group, id, m.cfg.InstanceID, generation)
	}, readHeartbeat)
	if err != nil {
		return wrap("heartbeat", err)
	}
	return m.refused("heartbeat", c)
}

// tell sends a request that the coordinator answers at once and returns the code that it answers.
func (m *member) tell(ctx context.Context, timeout time.Duration, key protocol.ApiKey, request func(b []byte, clientID string) []byte, read func(body []byte) (int16, error)) (c int16, err error) {
	err = m.ask(ctx, m.beats, key, timeout, request, func(body []byte) error {
		c, err = read(body)
		return err
	})
	return c, err
}
