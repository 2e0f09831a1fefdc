package kafka

import (
	"bytes"
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
	f, err := os.Open(path)
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	from := max(0, size-tailBytes)
	text, err := io.ReadAll(io.NewSectionReader(f, from, size-from))
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	if from > 0 { // begin with a whole line
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			text = text[i+1:]
		}
	}
	return string(text)
}

// lastLines returns at most n lines of the end of text, without the lines of Java's stacks.
func lastLines(text string, n int) string {
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(text), "\n"), func(line string) bool {
		return strings.HasPrefix(line, "\tat ")
	})
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
