package topology_test

import (
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wickerwork/wicker/ops"
	"github.com/wickerwork/wicker/topology"
)

func build(t testing.TB, app string, declare func(b *topology.Builder)) *topology.Plan {
	t.Helper()
	b := topology.New(app)
	declare(b)
	p, err := b.Build()
	require.NoError(t, err)
	return p
}

// P5: the text of each feature is a golden file.
func TestDescribeIsAsTheGoldenFiles(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(features)) {
		t.Run(name, func(t *testing.T) {
			p := build(t, "app", features[name])
			golden(t, name+".txt", p.Describe())
			require.Equal(t, p.Describe(), build(t, "app", features[name]).Describe(), "the text is stable")
		})
	}
}

func TestDrawingsAreAsTheGoldenFiles(t *testing.T) {
	for _, name := range []string{"chain", "gates-at-merge", "invalid-records", "tables", "two-hops"} {
		t.Run(name, func(t *testing.T) {
			p := build(t, "app", features[name])
			golden(t, name+".mmd", p.Mermaid())
			golden(t, name+".dot", p.DOT())
		})
	}
}

// nasty is a label of all that could break a drawing.
const nasty = "end]\"\\ #quot; <b>&amp;` -->|x|\nline { } ; \t(\u00e9) \\n \\"

// The grammar of what is drawn, one line at a time: strings hold anything but what ends them.
var (
	mermaidLine = regexp.MustCompile(`^(flowchart TD|  subgraph sub\d+\["[^"]*"\]|  end|    sub\d+_\d+\["[^"]*"\]|  topic\d+\[\("[^"]*"\)\]|  \w+ (-->|-\.->)(\|"[^"]*"\|)? \w+)$`)
	dotString   = `"(?:[^"\\]|\\.)*"`
	dotLine     = regexp.MustCompile(`^(digraph ` + dotString + ` \{|  rankdir=TB;|  node \[shape=box\];|  subgraph cluster_sub\d+ \{|    label=` + dotString + `;|  \}|\}| +\w+ \[label=` + dotString + `(, shape=cylinder)?\];|  \w+ -> \w+( \[(label=` + dotString + `)?(, )?(style=dashed)?\])?;)$`)
)

func TestDrawingsAreValidWhateverTheLabels(t *testing.T) {
	all := maps.Clone(features)
	all["nasty"] = func(b *topology.Builder) {
		yes, no := b.From(ops.Source(text("in"), ops.Name(nasty))).Branch(short, ops.Name(nasty))
		yes.Merge(no.MapValues(upper, ops.Name(nasty))).Memo(asks("m"), join, ops.Name(nasty)).To(ops.Sink(text("out"), ops.Name(nasty)))
	}
	for name, declare := range all {
		p := build(t, "app", declare)
		for line := range strings.Lines(p.Mermaid()) {
			require.Regexp(t, mermaidLine, strings.TrimSuffix(line, "\n"), name)
			require.NotContains(t, line, "<", name)
		}
		for line := range strings.Lines(p.DOT()) {
			require.Regexp(t, dotLine, strings.TrimSuffix(line, "\n"), name)
		}
		for line := range strings.Lines(p.Describe()) {
			require.Regexp(t, `^\S|^$|^  (sources|sinks|co-partitioned|gates|operators):|^    \d+ [A-Z]|^  ((source|sink|table|dead letter|repartition|changelog) |[a-zA-Z0-9._-]+ \(.* -> .*\): all of )`, strings.TrimSuffix(line, "\n"), "a label breaks no line")
		}
		if dot, err := exec.LookPath("dot"); err == nil { // the golden grammar above stands where it is missing
			cmd := exec.Command(dot, "-Tcanon")
			cmd.Stdin = strings.NewReader(p.DOT())
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s: %s", name, out)
		}
	}
}

// Each line of the drawing is in the text and the other way round.
func TestDrawingsHaveAllOperatorsAndTopics(t *testing.T) {
	for name, declare := range features {
		p := build(t, "app", declare)
		operators := strings.Count(p.Describe(), "\n    ")
		require.Equal(t, operators, strings.Count(p.Mermaid(), "\n    "), name)
		require.Equal(t, operators, len(regexp.MustCompile(`(?m)^    sub\d+_\d+ \[`).FindAllString(p.DOT(), -1)), name)
		for _, topic := range p.Topics() {
			require.Contains(t, p.Mermaid(), `[("`+topic.Name+`")]`, name)
			require.Contains(t, p.DOT(), `[label="`+topic.Name+`", shape=cylinder]`, name)
		}
	}
}
