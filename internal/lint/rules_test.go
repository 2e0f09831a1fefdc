package lint_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/internal/lint"
)

func texts(found []lint.Finding) []string {
	s := []string{}
	for _, f := range found {
		s = append(s, f.String())
	}
	return s
}

func TestImportRules(t *testing.T) {
	const own = "github.com/wickerwork/wicker/"
	for _, c := range []struct {
		name, file, imports string
		want                []string
	}{
		{"allowed", "ops/map.go", own + "codec", nil},
		{"standard", "codec/json.go", "encoding/json/v2", nil},
		{"upwards", "codec/json.go", own + "ops", []string{"codec/json.go:3: codec may not import ops"}},
		{"upwards in a test", "codec/json_test.go", own + "testkit", nil},
		{"testkit", "exec/app.go", own + "testkit/memlog", []string{"exec/app.go:3: exec may not import testkit/memlog"}},
		{"below a pattern", "examples/07-new/main.go", own + "testkit/kafka", nil},
		{"unknown package", "extra/extra.go", "fmt", []string{"extra/extra.go:1: package extra is not in the table of directions"}},
		{"unknown sibling", "exec/extra/extra.go", "fmt", []string{"exec/extra/extra.go:1: package exec/extra is not in the table of directions"}},
		{"kafka-go", "exec/kafkalog/wire.go", "github.com/segmentio/kafka-go/protocol", nil},
		{"kafka-go elsewhere", "exec/app.go", "github.com/segmentio/kafka-go/protocol", []string{"exec/app.go:3: exec may not import github.com/segmentio/kafka-go/protocol"}},
		{"kafka-go in a test", "exec/app_test.go", "github.com/segmentio/kafka-go", []string{"exec/app_test.go:3: exec may not import github.com/segmentio/kafka-go"}},
		{"grocksdb elsewhere", "kvstore/store.go", "github.com/linxGnu/grocksdb", []string{"kvstore/store.go:3: kvstore may not import github.com/linxGnu/grocksdb"}},
		{"testify in a test", "ops/map_test.go", "github.com/stretchr/testify/require", nil},
		{"testify elsewhere", "ops/map.go", "github.com/stretchr/testify/require", []string{"ops/map.go:3: ops may not import github.com/stretchr/testify/require"}},
		{"unknown module", "ops/map_test.go", "example.com/left/pad", []string{"ops/map_test.go:3: example.com/left/pad is of a module that is not in the table of modules"}},
		{"prefix of a module", "exec/kafkalog/wire.go", "github.com/segmentio/kafka-gopher", []string{"exec/kafkalog/wire.go:3: github.com/segmentio/kafka-gopher is of a module that is not in the table of modules"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, err := lint.CheckImports(lint.Source{File: c.file, Text: fmt.Sprintf("package p\n\nimport %q\n", c.imports)})
			require.NoError(t, err)
			require.ElementsMatch(t, c.want, texts(found))
		})
	}
}

func TestDocRules(t *testing.T) {
	found, err := lint.CheckDocs([]lint.Source{
		{File: "good/doc.go", Text: "// Package good is.\npackage good\n"},
		{File: "good/good.go", Text: "package good\n\n// A is.\ntype A struct{}\n\n// B does.\nfunc (A) B() {}\n\nfunc (a) C() {}\n\n// Some.\nconst (\n\tD = 1\n\tE = 2\n)\n\nconst (\n\t// F and G.\n\tF = 1\n\tG = 2\n)\n"},
		{File: "bad/a.go", Text: "// Package bad is.\npackage bad\n\nfunc F() {}\n\ntype T[K any] struct{}\n\nfunc (*T[K]) M() {}\n\nvar V, w = 1, 2\n\ntype (\n\tU interface {\n\t\tN()\n\t\t// O does.\n\t\tO()\n\t\tP()\n\n\t\tQ()\n\t}\n)\n"},
		{File: "bad/a_test.go", Text: "package bad\n\nfunc G() {}\n"},
		{File: "none/none.go", Text: "package none\n"},
		{File: "two/a.go", Text: "// Package two is.\npackage two\n"},
		{File: "two/doc.go", Text: "// Package two is.\npackage two\n"},
		{File: "cmd/main.go", Text: "// Command cmd does.\npackage main\n\nfunc X() {}\n"},
	})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{
		"bad/a.go:1: the package comment of bad belongs into doc.go",
		"bad/a.go:4: function F is exported and has no doc comment",
		"bad/a.go:6: type T is exported and has no doc comment",
		"bad/a.go:8: method M is exported and has no doc comment",
		"bad/a.go:10: var V is exported and has no doc comment",
		"bad/a.go:13: type U is exported and has no doc comment",
		"bad/a.go:14: method N is exported and has no doc comment",
		"bad/a.go:19: method Q is exported and has no doc comment",
		"none/none.go:1: package none has no package comment",
		"two/doc.go:1: package two has a second package comment, beside that of two/a.go",
	}, texts(found))
	_, err = lint.CheckDocs([]lint.Source{{File: "x/x.go", Text: "not Go"}})
	require.ErrorContains(t, err, "x/x.go:1")
}

func TestCitationRules(t *testing.T) {
	contract := ""
	for _, id := range []string{"TX02", "TX03", "TX13", "TX15", "TX19", "TX20", "TX21", "TX22", "TX23", "TX24", "TX25",
		"ST05", "ST06", "VA03", "VA04", "VA05", "VA06", "VA07"} {
		contract += "func Test" + id + "AsItIs() {\n\tkafka.Each()\n}\n"
	}
	found := lint.CheckCitations([]lint.Source{
		{File: "exec/doc.go", Text: "// Package exec is, see E3.\n//\n//   - E1 One is.\n//   - E2 Two is.\n//   - E4 Four is.\n//   - E5 Five is.\n"},
		{File: "exec/a_test.go", Text: "// as E1 to E5 say: E10\nfunc TestE2Works() {}\nfunc TestAT03TX27IsAsItIs() {\n\tx()\n\tkafka.StartReal(t)\n}\nfunc TestTX12AsItIs() {\n}\nfunc x() {\n\tkafka.Each()\n}\n// VA-08\n" + contract},
		{File: "exec/a.go", Text: "// E4\n"},
		{File: "exec/kafkalog/a_test.go", Text: "// E4 (K1)\n"},
		{File: "exec/commitlog/doc.go", Text: "//   - L1 One is.\n"},
		{File: "exec/commitlog/logtest/logtest.go", Text: "// testOne is for L1.\n"},
		{File: "exec/commitlog/logtest/doc.go", Text: "// L2\n"},
		{File: "exec/kafkalog/doc.go", Text: "//   - K1 One is.\n"},
		{File: "kvstore/doc.go", Text: "// nothing\n"},
	})
	require.ElementsMatch(t, []string{
		"exec/doc.go:5: E4 is where E3 should be",
		"exec/doc.go:5: no test in exec cites E4",
		"exec/doc.go:6: E5 is where E4 should be",
		"exec:1: no test is named after VA-08",
		"exec:1: no test named after TX-12 runs on a real Kafka",
		"kvstore/doc.go:1: numbers nothing with S",
	}, texts(found))
	require.Contains(t, texts(lint.CheckCitations(nil)), "exec/doc.go:1: the document of E is not there")
}

func TestTextRules(t *testing.T) {
	for _, c := range []struct {
		name, file, line string
		want             string // "" if the line is fine
	}{
		{"plain", "a.go", "// just a line of text, with 1/2 and a/b/c and http://127.0.0.1:80/x", ""},
		{"letter", "a.go", "// \u00fcber", `not ASCII: "\u00fc"`},
		{"work", "README.md", "see /wo" + "rk/main", `a path of one machine: "/wo` + `rk/m"`},
		{"work inside", "README.md", "see https://example.com/wo" + "rk/main and net" + "/wo" + "rk/x", ""},
		{"root", "a.go", `dir = "/ro` + `ot/go"`, `a path of one machine: "\"/ro` + `ot/g"`},
		{"temporary", "README.md", "see /t" + "mp/x", `a path of one machine: "/t` + `mp/"`},
		{"temporary in a test", "a_test.go", "// see /t" + "mp/x", ""},
		{"host", "pom.xml", "<url>https://repo1.mav" + "en.org</url>", `the host of a package registry: "repo1.mav` + `en"`},
		{"namespace", "pom.xml", `xmlns="http://maven.apache.org/POM/4.0.0"`, ""},
		{"issue", "a.go", "// see iss" + "ue 12", `an issue number: "iss` + `ue 12"`},
		{"number", "a.go", "// fixed (#" + "7)", `an issue number: "(#` + `7"`},
		{"heading", "README.md", "# 7 things", ""},
		{"reminder", "a.go", "// TO" + "DO later", `a reminder: do it, or say what is so and why: "TO` + `DO"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := []string{}
			if c.want != "" {
				want = append(want, c.file+":2: "+c.want)
			}
			require.Equal(t, want, texts(lint.CheckText(lint.Source{File: c.file, Text: "first\n" + c.line + "\n"})))
		})
	}
	t.Run("lines", func(t *testing.T) {
		long := strings.Repeat("\n", 801)
		require.Equal(t, []string{"a.go:801: the file has 801 lines, must be <= 800"}, texts(lint.CheckText(lint.Source{File: "a.go", Text: long})))
		require.Empty(t, lint.CheckText(lint.Source{File: "a.md", Text: long}))
		require.Empty(t, lint.CheckText(lint.Source{File: "a.go", Text: long[1:]}))
	})
}
