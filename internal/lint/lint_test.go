package lint_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/internal/lint"
)

var update = flag.Bool("update", false, "write deps.txt anew")

// root is the repository's.
var root = filepath.Join("..", "..")

// sources of the repository; there have to be some, or the checks check nothing.
func sources(t *testing.T) []lint.Source {
	t.Helper()
	s, err := lint.Sources(root)
	require.NoError(t, err)
	require.Greater(t, len(s), 20)
	return s
}

func report(t *testing.T, found []lint.Finding) {
	t.Helper()
	for _, f := range found {
		t.Error(f)
	}
}

func TestImports(t *testing.T) {
	for _, s := range sources(t) {
		if strings.HasSuffix(s.File, ".go") {
			found, err := lint.CheckImports(s)
			require.NoError(t, err)
			report(t, found)
		}
	}
}

func TestDocs(t *testing.T) {
	found, err := lint.CheckDocs(sources(t))
	require.NoError(t, err)
	report(t, found)
}

func TestText(t *testing.T) {
	for _, s := range sources(t) {
		report(t, lint.CheckText(s))
	}
}

func TestCitations(t *testing.T) {
	report(t, lint.CheckCitations(sources(t)))
}

const depsHeader = `# The modules that this one needs, and those that only its tests need.
# make update-deps-list writes it.
`

func TestDependencies(t *testing.T) {
	lines, err := lint.Dependencies(root)
	require.NoError(t, err)
	require.NotEmpty(t, lines)
	want := depsHeader + strings.Join(lines, "\n") + "\n"
	path := filepath.Join(root, "deps.txt")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
	}
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, strings.Split(want, "\n"), strings.Split(string(got), "\n"),
		"deps.txt:1: differs from what is needed; if that is meant, run make update-deps-list")
}
