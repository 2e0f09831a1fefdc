package lint

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// module is this module's path.
const module = "github.com/wickerwork/wicker"

// Finding is something that breaks a rule.
type Finding struct {
	// File is relative to the repository's root, with slashes. Line counts from 1.
	File string
	Line int
	Text string
}

// String is file:line: text.
func (f Finding) String() string { return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Text) }

// Source is a text file of the repository.
type Source struct {
	// File is relative to the repository's root, with slashes.
	File string
	Text string
}

// texts are the endings and names of files that people wrote.
var texts = []string{".go", ".md", ".xml", ".sh", ".java", ".yml", ".yaml", "Makefile", "run", "setup", ".mod", ".gitignore"}

// Sources returns the text files below root, without data from elsewhere and what is built.
func Sources(root string) ([]Source, error) {
	var sources []Source
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		file := filepath.ToSlash(rel)
		if d.IsDir() {
			switch {
			case d.Name() == ".git", d.Name() == ".cache", d.Name() == "data", d.Name() == "testdata", file == "bench/results":
				return filepath.SkipDir
			}
			return nil
		}
		if !slices.ContainsFunc(texts, func(end string) bool { return path.Base(file) == end || strings.HasSuffix(file, end) && end[0] == '.' }) {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		sources = append(sources, Source{File: file, Text: string(text)})
		return nil
	})
	return sources, err
}
