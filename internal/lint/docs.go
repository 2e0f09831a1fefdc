package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
)

// CheckDocs applies the rules for doc comments (L3) to all Go files of the repository.
func CheckDocs(sources []Source) ([]Finding, error) {
	type pkg struct {
		name      string
		first     string // file
		commented []string
	}
	packages := map[string]*pkg{}
	var found []Finding
	for _, s := range sources {
		if !strings.HasSuffix(s.File, ".go") || strings.HasSuffix(s.File, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, s.File, s.Text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		dir := path.Dir(s.File)
		p := packages[dir]
		if p == nil {
			p = &pkg{name: file.Name.Name, first: s.File}
			packages[dir] = p
		}
		if file.Doc != nil {
			p.commented = append(p.commented, s.File)
		}
		if file.Name.Name == "main" {
			continue // nobody imports it
		}
		missing := func(name *ast.Ident, what string) {
			found = append(found, Finding{s.File, fset.Position(name.Pos()).Line, fmt.Sprintf("%s %s is exported and has no doc comment", what, name.Name)})
		}
		for _, decl := range file.Decls {
			checkDecl(decl, func(p token.Pos) int { return fset.Position(p).Line }, missing)
		}
	}
	for dir, p := range packages {
		switch {
		case len(p.commented) == 0:
			found = append(found, Finding{p.first, 1, fmt.Sprintf("package %s has no package comment", p.name)})
		case len(p.commented) > 1:
			found = append(found, Finding{p.commented[1], 1, fmt.Sprintf("package %s has a second package comment, beside that of %s", p.name, p.commented[0])})
		case p.name != "main" && p.commented[0] != path.Join(dir, "doc.go") && !strings.Contains("/"+dir+"/", "/internal/"):
			found = append(found, Finding{p.commented[0], 1, fmt.Sprintf("the package comment of %s belongs into doc.go", p.name)})
		}
	}
	slices.SortFunc(found, compare)
	return found, nil
}

// checkDecl looks at one declaration. Within a group a comment is for the lines that follow it,
// up to an empty one.
func checkDecl(decl ast.Decl, line func(token.Pos) int, missing func(name *ast.Ident, what string)) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if !d.Name.IsExported() || d.Doc != nil {
			return
		}
		if d.Recv == nil {
			missing(d.Name, "function")
		} else if receiver(d.Recv.List[0].Type).IsExported() {
			missing(d.Name, "method")
		}
	case *ast.GenDecl:
		covered := -1 // the line that the comment above is for too
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && s.Doc == nil && (d.Doc == nil || d.Lparen.IsValid()) {
					missing(s.Name, "type")
				}
				if face, ok := s.Type.(*ast.InterfaceType); ok && s.Name.IsExported() {
					covered := -1
					for _, m := range face.Methods.List {
						if m.Doc != nil || m.Comment != nil || line(m.Pos()) == covered {
							covered = line(m.End()) + 1
							continue
						}
						for _, name := range m.Names {
							if name.IsExported() {
								missing(name, "method")
							}
						}
					}
				}
			case *ast.ValueSpec:
				if s.Doc != nil || s.Comment != nil || d.Doc != nil || line(s.Pos()) == covered { // a group's comment is for all of it
					covered = line(s.End()) + 1
					continue
				}
				for _, name := range s.Names {
					if name.IsExported() {
						missing(name, d.Tok.String())
					}
				}
			}
		}
	}
}

// receiver returns the name of a receiver's type.
func receiver(t ast.Expr) *ast.Ident {
	for {
		switch e := t.(type) {
		case *ast.StarExpr:
			t = e.X
		case *ast.ParenExpr:
			t = e.X
		case *ast.IndexExpr:
			t = e.X
		case *ast.IndexListExpr:
			t = e.X
		case *ast.Ident:
			return e
		default:
			return ast.NewIdent("_")
		}
	}
}

func compare(a, b Finding) int {
	if c := strings.Compare(a.File, b.File); c != 0 {
		return c
	}
	return a.Line - b.Line
}
