package commitlog_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// An error is the sentinel of its code and no other's, whoever wraps it, and what its cause is.
func TestErrorsAreSentinelsByTheirCode(t *testing.T) {
	all := []error{commitlog.ErrInstanceFenced, commitlog.ErrSessionTimeoutRefused, commitlog.ErrTransactionTimeoutRefused, commitlog.ErrClosed}
	for code, want := range map[int16]error{82: all[0], 26: all[1], 50: all[2], 0: all[3], 27: all[3]} {
		err := fmt.Errorf("wrapped: %w", &commitlog.Error{Op: "join group", Code: code, Err: commitlog.ErrClosed})
		for _, sentinel := range all {
			require.Equal(t, sentinel == want || sentinel == commitlog.ErrClosed, errors.Is(err, sentinel), "code %d, %v", code, sentinel)
		}
	}
}
