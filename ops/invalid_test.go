package ops_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/codec"
	"github.com/wickerwork/wicker/ops"
)

// leaky is a codec whose errors tell what they should not.
type leaky struct{ codec.Codec[string] }

func (leaky) Decode(src []byte) (string, error) { return "", errors.New("cannot read " + string(src)) }

// A dead letter tells a codec's error only if that is known to hold no content.
func TestDeadLettersTellNoContent(t *testing.T) {
	for _, value := range []codec.Codec[string]{codec.String, leaky{codec.String}} {
		e := newEnv(t)
		emit, err := ops.Source(ops.NewTopic("in", codec.String, value), ops.OnInvalid(ops.DeadLetter("d"))).Wire(e.site(ops.Traits{Op: "Source", Name: "in"}, 0),
			func(string, string) error { panic("it goes on") })
		require.NoError(t, err)
		e.meta = ops.Meta{Topic: "in", Partition: 2, Offset: 7, Timestamp: 5}
		require.NoError(t, emit([]byte("k"), []byte("secret\xff")))
		require.EqualValues(t, 1, e.counters["Source dead-lettered"].Value())
		head := string(e.outputs["d"].meta.Headers)
		require.Equal(t, 6, e.outputs["d"].meta.HeaderCount)
		require.NotContains(t, head, "secret")
		require.Contains(t, head, ops.HeaderError)
		if value != codec.String {
			require.Contains(t, head, "*errors.errorString")
		}
		require.Zero(t, e.meta.HeaderCount, "the record in process stays as it is")
	}
}

// Policies that cannot be.
func TestInvalidPolicies(t *testing.T) {
	one := ops.Substitute(func(ops.InvalidRecord) (int, bool) { return 1, true })
	require.NoError(t, one.Fits[int]())
	require.ErrorContains(t, one.Fits[string](), "Substitute gives values of another type than string")
	require.NoError(t, ops.SkipInvalid.Fits[string]())
	require.ErrorContains(t, ops.Collect([]ops.Option{ops.OnInvalid(ops.Substitute[int](nil))}).Err, "the function of Substitute is nil")
	_, err := ops.Source(ops.NewTopic("in", codec.String, codec.String), ops.OnInvalid(one)).Wire(newEnv(t).site(ops.Traits{}, 0), nil)
	require.ErrorContains(t, err, "another type than string")
	_, err = ops.Source(ops.NewTopic("in", codec.String, codec.String), ops.OnInvalid(ops.DeadLetter("missing"))).Wire(newEnv(t).site(ops.Traits{}, 0), nil)
	require.Error(t, err)
	require.Equal(t, []string{"ends the run", "skips", "substitutes", "writes to x"},
		[]string{ops.FailInvalid.String(), ops.SkipInvalid.String(), one.String(), ops.DeadLetter("x").String()})
}
