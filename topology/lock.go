package topology

import (
	"cmp"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Lock is what of a plan lasts on a cluster: names by which state, positions and repartition topics are found, and how they are
// encoded (P6). It is written down when a plan is deployed, with Encode, and the next plan is compared with it, by Plan.CheckLock in a
// test, or by an executor at its start. Operators without state are not in it: they may come and go.
type Lock struct {
	// App is the application's name.
	App string `json:"app"`
	// Stores are the states by durable name, Repartitions the repartition topics by their Rekeys' and Sources the topics that are read.
	Stores       []LockedStore       `json:"stores,omitzero"`
	Repartitions []LockedRepartition `json:"repartitions,omitzero"`
	Sources      []LockedSource      `json:"sources,omitzero"`
}

// LockedStore is a state: its topic, the operator's kind, and its codecs as codec.Describe has them.
type LockedStore struct {
	Name     string `json:"name"`
	Topic    string `json:"topic"`
	Operator string `json:"operator"`
	Key      string `json:"key"`
	Value    string `json:"value"`
}

// LockedRepartition is a repartition topic. Partitions is 0 where the cluster's topics decide.
type LockedRepartition struct {
	Name       string `json:"name"`
	Topic      string `json:"topic"`
	Partitions int    `json:"partitions,omitzero"`
	Key        string `json:"key"`
	Value      string `json:"value"`
}

// LockedSource is a topic that is read. Partitioner is empty where no state depends on it.
type LockedSource struct {
	Topic       string `json:"topic"`
	Key         string `json:"key"`
	Partitioner string `json:"partitioner,omitzero"`
}

// Lock returns what of the plan lasts. It depends on the program alone, not on a cluster.
func (p *Plan) Lock() Lock {
	l := Lock{App: p.app}
	for _, st := range p.stores {
		l.Stores = append(l.Stores, LockedStore{Name: st.Name, Topic: st.Changelog, Operator: st.Op, Key: st.Key, Value: st.Codec})
	}
	for _, s := range p.subs {
		for _, at := range s.places {
			switch {
			case at.role != roleSource:
			case at.rekey != nil:
				l.Repartitions = append(l.Repartitions, LockedRepartition{Name: at.at.Name, Topic: at.topic, Partitions: at.rekey.opts.Partitions, Key: at.key, Value: at.value})
			default:
				source := LockedSource{Topic: at.topic, Key: at.key}
				if at.feeds {
					source.Partitioner = at.source().Partitioner.String()
				}
				l.Sources = append(l.Sources, source)
			}
		}
	}
	slices.SortFunc(l.Repartitions, func(a, b LockedRepartition) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(l.Sources, func(a, b LockedSource) int { return cmp.Compare(a.Topic, b.Topic) })
	return l
}

// Encode returns the lock as indented JSON with a line break at its end. Equal locks have equal encodings.
func (l Lock) Encode() []byte {
	b, err := json.Marshal(l, jsontext.WithIndent("  "))
	if err != nil { // there is nothing in it that cannot be encoded
		return nil
	}
	return append(b, '\n')
}

// ParseLock reads what Encode has written. An error says that it is something else, or of a later version.
func ParseLock(b []byte) (Lock, error) {
	var l Lock
	if err := json.Unmarshal(b, &l, json.RejectUnknownMembers(true)); err != nil {
		return Lock{}, fmt.Errorf("plan lock: %w", err)
	}
	if l.App == "" {
		return Lock{}, errors.New("plan lock: it has no app")
	}
	return l, nil
}

// Verdict says what a change of a plan means for what is on the cluster.
type Verdict int8

const (
	// Compatible: the plan goes on from where the other one was.
	Compatible Verdict = iota
	// NeedsMigration: it goes on only if something is done first, or if what is stored is known to be readable.
	NeedsMigration
	// Destructive: something that is there would be left behind without a word.
	Destructive
)

// String returns "compatible", "needs migration" or "destructive".
func (v Verdict) String() string {
	if v < 0 || int(v) >= len(verdicts) {
		return "unknown"
	}
	return verdicts[v]
}

var verdicts = [...]string{"compatible", "needs migration", "destructive"}

// Change is one difference between a lock and a plan.
type Change struct {
	Verdict Verdict
	// Name is what has changed, for example `store "counts"`; Text what that means, and how to go on.
	Name, Text string
	// Orphan is the topic that nobody would use any more, empty if there is none.
	Orphan string
}

// Changes are the differences between a lock and a plan.
type Changes []Change

// Verdict returns that of the worst change.
func (c Changes) Verdict() Verdict {
	v := Compatible
	for _, x := range c {
		v = max(v, x.Verdict)
	}
	return v
}

// Orphans returns the topics that nobody would use any more.
func (c Changes) Orphans() []string {
	var all []string
	for _, x := range c {
		if x.Orphan != "" {
			all = append(all, x.Orphan)
		}
	}
	return all
}

// Err returns a *LockError of the changes that are not compatible, nil if all are.
func (c Changes) Err() error {
	worse := slices.DeleteFunc(slices.Clone(c), func(x Change) bool { return x.Verdict == Compatible })
	if len(worse) == 0 {
		return nil
	}
	return &LockError{worse}
}

// String has a line for each change.
func (c Changes) String() string {
	var w strings.Builder
	for _, x := range c {
		fmt.Fprintf(&w, "%s: %s: %s\n", x.Verdict, x.Name, x.Text)
	}
	return w.String()
}

// LockError says that a plan does not go on from what is on the cluster.
type LockError struct{ Changes Changes }

// Error is one line, the worst verdict first.
func (e *LockError) Error() string {
	var all []string
	for _, x := range e.Changes {
		all = append(all, x.Name+": "+x.Text)
	}
	return fmt.Sprintf("the plan's change is %s: %s", e.Changes.Verdict(), strings.Join(all, "; "))
}
