package lint

import (
	"fmt"
	"regexp"
	"strings"
)

// maxLines is how many lines a Go file may have.
const maxLines = 800

// A textRule is broken by a line that the pattern matches.
type textRule struct {
	pattern *regexp.Regexp
	says    string
	// in says whether the rule concerns a file; nil is all files.
	in func(file string) bool
}

// The patterns are put together so that this file does not break its own rules.
var textRules = []textRule{
	{
		pattern: regexp.MustCompile(`[^\x00-\x7F]`),
		says:    "not ASCII",
	},
	{
		pattern: regexp.MustCompile(`(^|[^A-Za-z0-9_.~/-])/(` + `work|root|home)/[a-z]`),
		says:    "a path of one machine",
	},
	{
		pattern: regexp.MustCompile(`(^|[^A-Za-z0-9_.~/$-])/` + `tmp/`),
		says:    "a path of one machine",
		in:      func(file string) bool { return !strings.HasSuffix(file, "_test.go") },
	},
	{
		pattern: regexp.MustCompile(`(?i)repo1?\.maven|proxy\.` + `golang|sum\.` + `golang|goproxy\.|registry\.npm|pypi\.` + `org|deb\.` + `debian|crates\.` + `io|arti` + `factory|jf` + `rog|nex` + `us`),
		says:    "the host of a package registry",
	},
	{
		pattern: regexp.MustCompile(`(?i)\b(issue|ticket|pull request|PR)\s*#?[0-9]+\b|(^|\s|\()#[0-9]+\b`),
		says:    "an issue number",
	},
	{
		pattern: regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME)\b`),
		says:    "a reminder: do it, or say what is so and why",
	},
}

// CheckText applies the rules for text (L4).
func CheckText(s Source) []Finding {
	var found []Finding
	lines := strings.Split(strings.TrimSuffix(s.Text, "\n"), "\n")
	for i, line := range lines {
		for _, r := range textRules {
			if r.in != nil && !r.in(s.File) {
				continue
			}
			if at := r.pattern.FindString(line); at != "" {
				found = append(found, Finding{s.File, i + 1, fmt.Sprintf("%s: %+q", r.says, strings.TrimSpace(at))})
			}
		}
	}
	if strings.HasSuffix(s.File, ".go") && len(lines) > maxLines {
		found = append(found, Finding{s.File, len(lines), fmt.Sprintf("the file has %d lines, must be <= %d", len(lines), maxLines)})
	}
	return found
}
