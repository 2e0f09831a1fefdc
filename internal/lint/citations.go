package lint

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// A cited document numbers guarantees that tests cite.
type cited struct {
	doc string
	// letter is what its numbers begin with.
	letter string
	// by are the folders whose tests cite them, conformance suites included.
	by []string
}

var citedDocs = []cited{
	{"exec/doc.go", "E", []string{"exec"}},
	{"exec/commitlog/doc.go", "L", []string{"exec/commitlog/logtest"}},
	{"exec/kafkalog/doc.go", "K", []string{"exec/kafkalog"}},
	{"kvstore/doc.go", "S", []string{"kvstore/kvstoretest", "kvstore", "kvstore/rocksdb"}},
}

// suites are the folders that hold tests for others to run.
var suites = []string{"exec/commitlog/logtest", "kvstore/kvstoretest"}

// contract are the behaviours of the model that have a test by their name, on a real broker, and where.
var contract = map[string][]string{
	"exec": {
		"TX-02", "TX-03", "TX-12", "TX-13", "TX-15", "TX-19", "TX-20", "TX-21", "TX-22", "TX-23", "TX-24", "TX-25", "TX-27",
		"ST-05", "ST-06", "VA-03", "VA-04", "VA-05", "VA-06", "VA-07", "VA-08",
	},
}

// onKafka is what tests run on a real Kafka with.
var onKafka = regexp.MustCompile(`\bkafka\.(Each|EachOwn|Shared|StartReal|StartCluster)\(`)

// definition is a numbered guarantee in a package comment.
var definition = regexp.MustCompile(`^//\s+(?:- )?([A-Z])([0-9]+) [A-Z]`)

// CheckCitations applies the rules for numbers (L5): each guarantee that a package numbers is cited by a test, by its number or in a
// test's name, and each behaviour of the contract's list has a test of its name. Of a range, L1 to L8, only the ends
// are cited.
func CheckCitations(sources []Source) []Finding {
	var found []Finding
	for _, d := range citedDocs {
		i := slices.IndexFunc(sources, func(s Source) bool { return s.File == d.doc })
		if i < 0 {
			found = append(found, Finding{d.doc, 1, "the document of " + d.letter + " is not there"})
			continue
		}
		next := 1
		for n, line := range strings.Split(sources[i].Text, "\n") {
			m := definition.FindStringSubmatch(line)
			if m == nil || m[1] != d.letter {
				continue
			}
			id := m[1] + m[2]
			if want := fmt.Sprint(d.letter, next); id != want {
				found = append(found, Finding{d.doc, n + 1, fmt.Sprintf("%s is where %s should be", id, want)})
			}
			next++
			cites := regexp.MustCompile(`(^|[^A-Za-z0-9]|Test)` + id + `([^0-9]|$)`)
			if !tested(sources, d.by, cites) {
				found = append(found, Finding{d.doc, n + 1, fmt.Sprintf("no test in %s cites %s", strings.Join(d.by, ", "), id)})
			}
		}
		if next == 1 {
			found = append(found, Finding{d.doc, 1, "numbers nothing with " + d.letter})
		}
	}
	for dir, ids := range contract {
		for _, id := range ids {
			name := regexp.MustCompile(`(?m)^func Test([A-Z]{2}[0-9]{2})*` + strings.ReplaceAll(id, "-", "") + `[A-Z](.*\n)*?}\n`)
			named, real := false, false
			for _, s := range sources {
				if !holdsTests(s, []string{dir}) {
					continue
				}
				for _, test := range name.FindAllString(s.Text, -1) {
					named = true
					real = real || onKafka.MatchString(test)
				}
			}
			switch {
			case !named:
				found = append(found, Finding{dir, 1, "no test is named after " + id})
			case !real:
				found = append(found, Finding{dir, 1, "no test named after " + id + " runs on a real Kafka"})
			}
		}
	}
	slices.SortFunc(found, compare)
	return found
}

// tested says whether a test in one of the folders matches.
func tested(sources []Source, dirs []string, pattern *regexp.Regexp) bool {
	return slices.ContainsFunc(sources, func(s Source) bool { return holdsTests(s, dirs) && pattern.MatchString(s.Text) })
}

// holdsTests says whether a file in one of the folders holds tests.
func holdsTests(s Source, dirs []string) bool {
	dir := path.Dir(s.File)
	return slices.Contains(dirs, dir) && (strings.HasSuffix(s.File, "_test.go") || slices.Contains(suites, dir)) &&
		path.Base(s.File) != "doc.go"
}
