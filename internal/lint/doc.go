// Package lint checks the repository as a whole: what no compiler and no linter of single
// packages sees. It is a test and nothing else:
//
//	go test ./internal/lint
//
// # What is checked
//
//   - L1 Packages import each other in one direction, and each other module is imported only
//     where it may be: the tables in imports.go.
//   - L2 deps.txt lists every module that packages or their tests need, with its version, so
//     that a new one is seen in review. go test ./internal/lint -run TestDependencies -update
//     writes it anew.
//   - L3 Every package has a comment that says what it is for, a library in its doc.go, and
//     every exported name, method and interface method has a doc comment.
//   - L4 Text is ASCII, has no path of a single machine, no host of a package registry, no issue
//     number and no reminder to do something later, and no Go file has more than 800 lines.
//   - L5 Every guarantee that a package numbers in its doc.go is cited by a test, and the behaviours listed in citations.go
//     have a test of their name.
//
// Everything is reported as file:line, all of it at once. Each rule is itself tested on text that
// breaks it. Data that came from elsewhere, below a data or testdata directory, is not checked.
//
// # Concurrency and errors
//
// Functions here read files and return what they found as [Finding] values; an error says that a
// file could not be read or parsed. They have no state.
package lint
