package ops

import "github.com/wickerwork/wicker/codec"

// State names the state of an operator and how its keys and values are encoded. It is the
// same value for the operator and for whoever reads the state (testkit), so that a wrong
// codec does not compile. Name is durable: it names the changelog topic, and renaming it
// begins with empty state.
//
// A value that its codec encodes to null is deleted; codec.Nullable and codec.OmitZero make
// codecs that do so. A key without a value is seen as the zero value of A.
type State[K, A any] struct {
	Name  string
	Key   codec.Codec[K]
	Value codec.Codec[A]
}

// NewState returns the state with this durable name and these codecs.
func NewState[K, A any](name string, key codec.Codec[K], value codec.Codec[A]) State[K, A] {
	return State[K, A]{Name: name, Key: key, Value: value}
}
