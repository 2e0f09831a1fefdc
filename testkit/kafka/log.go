package kafka

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// logName is the file in the broker's directory that takes its log.
const logName = "broker.log"

// tailBytes is how much of a log's end is shown.
const tailBytes = 16 << 10

// tail returns the last lines of the file, or why it has none.
func tail(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	from := max(0, info.Size()-tailBytes)
	text, err := logFrom(path, from)
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	if _, whole, ok := strings.Cut(text, "\n"); ok && from > 0 { // begin with a whole line
		return whole
	}
	return text
}

// logFrom returns what the file has from an offset on.
func logFrom(path string, from int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return "", err
	}
	text, err := io.ReadAll(f)
	return string(text), err
}

// lastLines returns at most n lines of the end of text, without the lines of Java's stacks.
func lastLines(text string, n int) string {
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(text), "\n"), func(line string) bool {
		return strings.HasPrefix(line, "\tat ")
	})
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
