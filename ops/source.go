package ops

import "fmt"

// SourceOp is a topic as the beginning of a stream.
type SourceOp[K, V any] struct {
	Topic   Topic[K, V]
	Options Options
}

// Source reads a topic. Each record is decoded strictly; one that cannot be decoded ends
// the run with its coordinates, unless OnInvalid says otherwise. A group without committed offsets begins at the topic's earliest record.
// Input that is gone before it was read ends the run as well, unless OnLost says otherwise.
// Options: Name, OnLost, OnInvalid, OnTimestamp, PartitionedBy, OnMisplaced.
func Source[K, V any](t Topic[K, V], opts ...Option) SourceOp[K, V] {
	return SourceOp[K, V]{Topic: t, Options: Collect(opts)}
}

// Traits describes the source.
func (s SourceOp[K, V]) Traits() Traits {
	return Traits{Op: "Source", Name: s.Topic.Name}
}

// Wire makes the source for one task: what takes a record's bytes, nil for null.
func (s SourceOp[K, V]) Wire(site *Site, down Emit[K, V]) (Emit[[]byte, []byte], error) {
	m, at, key, value := site.Meta(), site.At, s.Topic.Key, s.Topic.Value
	invalid, err := newInvalid[V](s.Options.OnInvalid, site)
	if err != nil {
		return nil, err
	}
	timed := s.Options.OnTimestamp.timeless(site)
	return func(kb, vb []byte) error {
		m.At = at
		if m.Timestamp < 0 {
			if ok, err := timed(); !ok {
				return err
			}
		}
		k, err := key.Decode(kb)
		if err != nil {
			_, _, err := invalid.take("key", err, kb, vb)
			return err
		}
		v, err := value.Decode(vb)
		if err != nil {
			instead, ok, err := invalid.take("value", err, kb, vb)
			if err != nil || !ok {
				return err
			}
			v = instead
		}
		return down(k, v)
	}, nil
}

// DecodeError says that a key, a value or a state could not be decoded. It wraps the codec's error.
type DecodeError struct {
	// Part is "key", "value" or "state", an answer of Memo being state.
	Part string
	// Err is the codec's error.
	Err error
}

// Error names the part and the cause, never the bytes.
func (e *DecodeError) Error() string { return fmt.Sprintf("decode %s: %v", e.Part, e.Err) }

// Unwrap returns the codec's error.
func (e *DecodeError) Unwrap() error { return e.Err }
