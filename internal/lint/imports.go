package lint

import (
	"fmt"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

// directions says which packages of this module a package may import. A name that ends in /...
// stands for a package and all below it; a longer name wins. What is not listed may not exist.
//
// Tests are free to import any of these: they stand outside.
var directions = map[string][]string{
	"codec/...": {"codec"},

	"kvstore":              {"kvstore/internal/..."},
	"kvstore/internal/...": {"kvstore/internal/..."},
	"kvstore/kvstoretest":  {"kvstore"},
	"kvstore/rocksdb":      {"kvstore", "kvstore/internal/..."},

	"ops":         {"codec", "internal/frames"},
	"globaltable": {"codec", "kvstore", "ops"},
	"topology":    {"codec", "ops", "globaltable", "internal/frames"},

	"exec/commitlog":         {},
	"exec/commitlog/logtest": {"exec/commitlog"},
	"exec/kafkalog":          {"exec/commitlog"},
	"exec":                   {"codec", "kvstore", "ops", "globaltable", "topology", "exec/commitlog", "exec/kafkalog"},

	"testkit":        {"codec", "kvstore", "ops", "globaltable", "topology", "exec", "exec/commitlog", "testkit/memlog"},
	"testkit/memlog": {"exec/commitlog"},
	"testkit/kafka":  {},

	"internal/frames":    {},
	"internal/lint":      {},
	"internal/withkafka": {"testkit/kafka"},

	"examples/...": {"codec", "kvstore", "kvstore/rocksdb", "ops", "globaltable", "topology", "exec", "testkit/...", "examples/..."},
	"chaos":        {"codec", "kvstore", "kvstore/rocksdb", "ops", "topology", "exec", "testkit/kafka"},
	"bench/...":    {"codec", "kvstore", "kvstore/rocksdb", "ops", "globaltable", "topology", "exec", "testkit/...", "bench/..."},
}

// anywhere is a place in modules that stands for all packages.
const anywhere = "..."

// modules says which packages may import a module that is not ours, apart from tests; a module
// that is not listed may not be imported at all. onlyThere says that this holds for tests too.
var modules = map[string]struct {
	by        []string
	onlyThere bool
}{
	"github.com/segmentio/kafka-go": {by: []string{"exec/kafkalog"}, onlyThere: true},
	"github.com/linxGnu/grocksdb":   {by: []string{"kvstore/rocksdb"}, onlyThere: true},
	"github.com/klauspost/compress": {by: []string{"exec/kafkalog"}},
	"github.com/pierrec/lz4/v4":     {by: []string{"exec/kafkalog"}},
	"github.com/twmb/franz-go":      {by: []string{"testkit/kafka", "bench/...", "chaos"}},
	"github.com/samber/lo":          {by: []string{anywhere}},
	"github.com/stretchr/testify":   {by: []string{"codec/codectest", "kvstore/kvstoretest", "exec/commitlog/logtest"}},
}

// CheckImports applies the rules for imports (L1) to a Go file.
func CheckImports(s Source) ([]Finding, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, s.File, s.Text, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	dir, test := path.Dir(s.File), strings.HasSuffix(s.File, "_test.go")
	var found []Finding
	report := func(line int, format string, args ...any) {
		found = append(found, Finding{s.File, line, fmt.Sprintf(format, args...)})
	}
	allowed, ok := lookup(directions, dir)
	if !ok && dir != "." {
		report(1, "package %s is not in the table of directions", dir)
	}
	for _, spec := range file.Imports {
		line := fset.Position(spec.Pos()).Line
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		switch first, _, _ := strings.Cut(name, "/"); {
		case name == module || strings.HasPrefix(name, module+"/"):
			own := strings.TrimPrefix(strings.TrimPrefix(name, module), "/")
			if !test && !matches(allowed, own) {
				report(line, "%s may not import %s", dir, own)
			}
		case strings.Contains(first, "."):
			rule, ok := lookup(modules, name)
			if !ok {
				report(line, "%s is of a module that is not in the table of modules", name)
			} else if (!test || rule.onlyThere) && !matches(rule.by, dir) {
				report(line, "%s may not import %s", dir, name)
			}
		}
	}
	return found, nil
}

// lookup finds what a table says of name: at name itself or at the longest prefix that the
// table has, with or without /... at its end.
func lookup[T any](table map[string]T, name string) (T, bool) {
	if v, ok := table[name]; ok {
		return v, true
	}
	for prefix := name; prefix != "."; prefix = path.Dir(prefix) {
		if v, ok := table[prefix+"/..."]; ok {
			return v, true
		}
		if v, ok := table[prefix]; ok && strings.Contains(prefix, ".") { // a module has all its packages
			return v, true
		}
	}
	var zero T
	return zero, false
}

// matches says whether name is one of the patterns.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		prefix, all := strings.CutSuffix(p, "/...")
		return p == anywhere || p == name || all && (name == prefix || strings.HasPrefix(name, prefix+"/"))
	})
}
