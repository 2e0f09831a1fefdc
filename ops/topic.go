package ops

import "github.com/wickerwork/wicker/codec"

// Topic names a Kafka topic and how its keys and values are encoded. One value serves every
// place that mentions the topic (source, sink, testkit), so that a wrong codec does not compile.
// It is immutable by convention and safe to share.
type Topic[K, V any] struct {
	Name  string
	Key   codec.Codec[K]
	Value codec.Codec[V]
}

// NewTopic returns the topic with this name and these codecs. It does nothing on a cluster:
// a topic that a program reads or writes must exist when it starts.
func NewTopic[K, V any](name string, key codec.Codec[K], value codec.Codec[V]) Topic[K, V] {
	return Topic[K, V]{Name: name, Key: key, Value: value}
}
