package ops

import "fmt"

// SinkOp is a topic as the end of a stream.
type SinkOp[K, V any] struct {
	Topic   Topic[K, V]
	Options Options
	// Table is the global table that the topic is of, if Options.Remember is set.
	Table string
}

// Sink writes a topic within the task's transaction. The partition is that of Kafka's default
// partitioner: Java's murmur2 of the key's bytes, an empty key included; records without a
// key (null) are spread evenly. Timestamp and headers are those of the record the
// output came from. Options: Name.
func Sink[K, V any](t Topic[K, V], opts ...Option) SinkOp[K, V] {
	return SinkOp[K, V]{Topic: t, Options: Collect(opts)}
}

// Traits describes the sink.
func (s SinkOp[K, V]) Traits() Traits { return Traits{Op: "Sink", Name: s.Topic.Name} }

// Wire makes the sink for one task.
func (s SinkOp[K, V]) Wire(site *Site) (Emit[K, V], error) {
	out, err := site.Output(s.Topic.Name)
	if err != nil {
		return nil, err
	}
	var remember func(key, value []byte) error
	if s.Options.Remember > 0 {
		if remember, err = site.Remember(s.Table, s.Options.Remember); err != nil {
			return nil, err
		}
	}
	m, at, key, value := site.Meta(), site.At, s.Topic.Key, s.Topic.Value
	kbuf, vbuf := make([]byte, 0, 64), make([]byte, 0, 256) // non-nil: a nil result means null
	return func(k K, v V) error {
		m.At = at
		kb, err := key.Append(kbuf[:0], k)
		if err != nil {
			return &EncodeError{Part: "key", Err: err}
		}
		vb, err := value.Append(vbuf[:0], v)
		if err != nil {
			return &EncodeError{Part: "value", Err: err}
		}
		if kb != nil {
			kbuf = kb
		}
		if vb != nil {
			vbuf = vb
		}
		if err := out.Write(m, kb, vb); err != nil || remember == nil {
			return err
		}
		return remember(kb, vb)
	}, nil
}

// EncodeError says that a key, a value or a state could not be encoded. It wraps the codec's error.
type EncodeError struct {
	// Part is "key", "value" or "state", an answer of Memo being state.
	Part string
	// Err is the codec's error.
	Err error
}

// Error names the part and the cause, never the content.
func (e *EncodeError) Error() string { return fmt.Sprintf("encode %s: %v", e.Part, e.Err) }

// Unwrap returns the codec's error.
func (e *EncodeError) Unwrap() error { return e.Err }
