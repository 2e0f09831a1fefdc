package ops

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/wickerwork/wicker/codec"
)

// InvalidError is what Invalid returns.
type InvalidError struct{ Err error }

// Invalid says of an error that a function returns that it is the record's fault, so that the operator's OnInvalid decides what becomes of it. Any
// other error ends the run. err must not be nil; its text goes into the header of a dead letter, beside the record itself.
func Invalid(err error) error { return &InvalidError{err} }

// Error is "invalid: " and the error's text.
func (e *InvalidError) Error() string { return "invalid: " + e.Err.Error() }

// Unwrap returns the error that was given to Invalid.
func (e *InvalidError) Unwrap() error { return e.Err }

// InvalidRecord is a record that could not be decoded, or that a function found Invalid, as it is given to the function of Substitute. Key and Value are the
// record's bytes, nil for null; they must not be changed or kept.
type InvalidRecord struct {
	// Topic, Partition and Offset are where the record lies. Timestamp is in ms since the epoch, -1 if there is none.
	Topic      string
	Partition  int32
	Offset     int64
	Timestamp  int64
	Key, Value []byte
	// Err is the codec's error for the value, or the one that was given to Invalid.
	Err error
}

// InvalidPolicy says what becomes of a source's record that cannot be decoded, or of a record that an operator's function finds Invalid. Of a
// source's a key is looked at first; if that is invalid the value is not looked at. The zero value is FailInvalid.
type InvalidPolicy struct {
	kind       invalidKind
	topic      string // of deadLetter; empty is the application's own
	substitute any    // func(InvalidRecord) (V, bool)
	err        error
}

type invalidKind int8

const (
	failInvalid invalidKind = iota
	skipInvalid
	substitute
	deadLetter
)

var (
	// FailInvalid ends the run with the record's coordinates; nothing is lost, the record is met again. It is the default.
	FailInvalid = InvalidPolicy{}
	// SkipInvalid passes the record over.
	SkipInvalid = InvalidPolicy{kind: skipInvalid}
)

// Substitute has f give a value in place of one that cannot be decoded, or of an operator's result; with false the record is passed over. V is the
// type of the source's values, or of the operator's results. A key is never substituted: a record whose key cannot be decoded ends the run, and a TryMap takes no Substitute. f must be safe for concurrent calls, and give the same
// answer when it is asked again.
func Substitute[V any](f func(InvalidRecord) (V, bool)) InvalidPolicy {
	p := InvalidPolicy{kind: substitute, substitute: f}
	if f == nil {
		p.err = errors.New("the function of Substitute is nil")
	}
	return p
}

// DeadLetter has the record written to another topic, as it is, within the task's transaction, and passes it over. Topic is a topic that
// exists, or empty for <application>-dead-letter, which is created if it is missing: of one partition, and kept until somebody deletes it (retention.ms=-1), since letters keep the
// timestamps of their records. The record keeps its headers too, and gets those whose names begin with Header, in place of any that it has. A letter may be 64 KiB larger than
// exec.Config.MaxRecordBytes; a topic of one's own must take that (max.message.bytes). Behind a Rekey the record is that of the repartition topic.
func DeadLetter(topic string) InvalidPolicy { return InvalidPolicy{kind: deadLetter, topic: topic} }

// String returns the policy as a plan's text has it.
func (p InvalidPolicy) String() string {
	switch p.kind {
	case skipInvalid:
		return "skips"
	case substitute:
		return "substitutes"
	case deadLetter:
		return "writes to " + p.topic
	}
	return "ends the run"
}

// DeadLetters returns the topic of a DeadLetter policy, with own for the application's; false if the policy is another one.
func (p InvalidPolicy) DeadLetters(own string) (topic string, ok bool) {
	if p.topic != "" {
		own = p.topic
	}
	return own, p.kind == deadLetter
}

// Substitutes says whether the policy is a Substitute.
func (p InvalidPolicy) Substitutes() bool { return p.kind == substitute }

// Fits returns an error if the policy substitutes values of another type than V.
func (p InvalidPolicy) Fits[V any]() error {
	if _, ok := p.substitute.(func(InvalidRecord) (V, bool)); !ok && p.kind == substitute {
		return fmt.Errorf("Substitute gives values of another type than %T", *new(V))
	}
	return nil
}

// To returns the policy with its topic set.
func (p InvalidPolicy) To(topic string) InvalidPolicy {
	p.topic = topic
	return p
}

// Names of the headers that a dead letter gets. Values are text; an error's text says where and what kind, and nothing of the content, if it is of this
// module's codecs, and is the type of the error otherwise.
const (
	HeaderTopic     = "wicker.topic"
	HeaderPartition = "wicker.partition"
	HeaderOffset    = "wicker.offset"
	HeaderOperator  = "wicker.operator"
	HeaderPart      = "wicker.part"  // "key" or "value", or "function" of an operator's that has returned Invalid
	HeaderError     = "wicker.error" // the codec's, or the one given to Invalid
)

// OnInvalid sets what a Source does with records that cannot be decoded, and what TryMap, TryMapValues and Memo do with those that their function
// finds Invalid. A dead letter is the record as it was read, and only what the operator would have made of it is left out: what went other ways before, or does later, stays. All but those that end the run are counted (CountSkipped, CountSubstituted,
// CountDeadLettered).
func OnInvalid(p InvalidPolicy) Option {
	return func(o *Options) {
		o.Given = append(o.Given, "OnInvalid")
		if o.OnInvalid = p; p.err != nil {
			o.fail(p.err)
		}
	}
}

// appendHeader adds a header in the format of a record batch.
func appendHeader(b []byte, key, value string) []byte {
	b = append(binary.AppendVarint(b, int64(len(key))), key...)
	return append(binary.AppendVarint(b, int64(len(value))), value...)
}

// appendOthers appends headers but those that a dead letter gets anew: one that was sent again, and is back, tells of its last way only. What is no header
// ends it.
func appendOthers(dst, headers []byte, count int) (out []byte, kept int) {
	part := func(b []byte) (text, rest []byte, ok bool) {
		size, n := binary.Varint(b)
		if n <= 0 || size > int64(len(b)-n) {
			return nil, nil, false
		}
		end := n + int(max(0, size)) // -1 is null
		return b[n:end], b[end:], true
	}
	for range count {
		key, rest, ok := part(headers)
		if !ok {
			break
		}
		if _, rest, ok = part(rest); !ok {
			break
		}
		if !slices.Contains(letterHeaders[:], string(key)) {
			dst = append(dst, headers[:len(headers)-len(rest)]...)
			kept++
		}
		headers = rest
	}
	return dst, kept
}

var letterHeaders = [...]string{HeaderTopic, HeaderPartition, HeaderOffset, HeaderOperator, HeaderPart, HeaderError}

// errorText is what may be told of an error.
func errorText(err error) string {
	if invalid, ok := err.(*InvalidError); ok {
		return invalid.Err.Error()
	}
	if own, ok := errors.AsType[*codec.Error](err); ok {
		return own.Error()
	}
	return fmt.Sprintf("%T", err)
}

// invalid is what becomes of an operator's invalid records in one task.
type invalid[V any] struct {
	policy  InvalidPolicy
	meta    *Meta
	instead func(InvalidRecord) (V, bool)
	// skipped, substituted and lettered count.
	skipped, substituted, lettered *Counter
	letters                        letters
}

func newInvalid[V any](p InvalidPolicy, site *Site) (*invalid[V], error) {
	in := &invalid[V]{policy: p, meta: site.Meta()}
	switch p.kind {
	case skipInvalid:
		in.skipped = site.Counter(site.At, CountSkipped)
	case substitute:
		in.skipped, in.substituted = site.Counter(site.At, CountSkipped), site.Counter(site.At, CountSubstituted)
		if err := p.Fits[V](); err != nil {
			return nil, err
		}
		in.instead = p.substitute.(func(InvalidRecord) (V, bool))
	case deadLetter:
		in.lettered = site.Counter(site.At, CountDeadLettered)
		out, err := site.Output(p.topic)
		if err != nil {
			return nil, err
		}
		in.letters.out = out
	}
	return in, nil
}

// failed decides about a record of which the operator's function has returned an error: with a value it goes on.
func (in *invalid[V]) failed(err error) (v V, ok bool, _ error) {
	invalid, is := errors.AsType[*InvalidError](err)
	if !is || in.policy.kind == failInvalid {
		return v, false, err
	}
	return in.take("function", invalid, in.meta.Key, in.meta.Value)
}

// take decides about a record of which a part cannot be decoded: with a value it goes on.
func (in *invalid[V]) take(part string, cause error, key, value []byte) (v V, ok bool, err error) {
	switch in.policy.kind {
	case skipInvalid:
		in.skipped.Add(1)
		return v, false, nil
	case deadLetter:
		in.lettered.Add(1)
		return v, false, in.letters.write(in.meta, part, cause, key, value)
	case substitute:
		if part == "key" {
			return v, false, fmt.Errorf("a key cannot be substituted: %w", &DecodeError{Part: part, Err: cause})
		}
		m := in.meta
		if invalid, is := cause.(*InvalidError); is {
			cause = invalid.Err
		}
		if v, ok = in.instead(InvalidRecord{Topic: m.Topic, Partition: m.Partition, Offset: m.Offset, Timestamp: m.Timestamp, Key: key, Value: value, Err: cause}); ok {
			in.substituted.Add(1)
		} else {
			in.skipped.Add(1)
		}
		return v, ok, nil
	}
	return v, false, &DecodeError{Part: part, Err: cause}
}

// letters writes dead letters of one operator.
type letters struct {
	out  Output
	meta Meta
	head []byte
}

func (l *letters) write(m *Meta, part string, err error, key, value []byte) error {
	h, kept := appendOthers(l.head[:0], m.Headers, m.HeaderCount)
	for _, header := range [...][2]string{{HeaderTopic, m.Topic}, {HeaderPartition, strconv.Itoa(int(m.Partition))}, {HeaderOffset, strconv.FormatInt(m.Offset, 10)},
		{HeaderOperator, m.At.String()}, {HeaderPart, part}, {HeaderError, errorText(err)}} {
		h = appendHeader(h, header[0], header[1])
	}
	l.head, l.meta = h, *m
	l.meta.Headers, l.meta.HeaderCount = h, kept+6
	return l.out.Write(&l.meta, key, value)
}
