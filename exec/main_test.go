package exec_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/wickerwork/wicker/testkit/kafka"
)

// TestMain fails if a goroutine of the executor is left when all tests have ended. It is also the main function
// of the child processes that tests start.
func TestMain(m *testing.M) {
	if spec := os.Getenv(childEnv); spec != "" {
		os.Exit(runChild(spec))
	}
	code := m.Run()
	if err := kafka.CloseShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	if left := leaked(); left != "" {
		fmt.Fprintln(os.Stderr, "goroutines are left:\n"+left)
		code = max(code, 1)
	}
	os.Exit(code)
}

// leaked returns the stacks of the executor's and its log's goroutines that do not end within
// five seconds.
func leaked() string {
	for tries := 0; ; tries++ {
		buf := make([]byte, 4<<20)
		var left []string
		for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(g, "wicker/exec.") || strings.Contains(g, "wicker/exec/kafkalog.") || strings.Contains(g, "wicker/ops.") {
				left = append(left, g)
			}
		}
		if len(left) == 0 || tries == 50 {
			return strings.Join(left, "\n\n")
		}
		time.Sleep(100 * time.Millisecond)
	}
}
