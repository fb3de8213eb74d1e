// Package test holds what is checked over the whole module and from outside of it: the import graph and the rules of
// the house (here), the built binary over real sockets (process, memory, soak) and benchmarks (bench).
package test

import (
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/queencell/queencell"

// rooms lists every package of the module outside test/ and the packages of the module that it may import. A package
// that is not here fails the test: whoever adds one says where it stands.
var rooms = map[string][]string{
	"engine":     nil,
	"owner":      nil,
	"membership": nil,
	"declare":    nil,
	// The conformance suite that every store passes; only tests import it.
	"declare/declaretest": {"declare"},
	"forward":             {"engine"},
	"cell":                {"engine", "owner", "membership", "forward", "declare"},
	"httpapi":             {"engine"},
	"mcqapi":              {"engine"},
	// The command puts the parts together: it names the engine's configuration and the store that it opens.
	"cmd/queencell": {"cell", "httpapi", "mcqapi", "engine", "declare"},
	"memcacheq":     nil,
	"client":        nil,
}

// tenants says which one room a dependency may enter, and why no other.
var tenants = []struct{ prefix, room, why string }{
	{"github.com/hashicorp/memberlist", "membership", "its callbacks run under its locks and its node state lies: the traps stay behind an immutable View"},
	{"github.com/buraksezer/consistent", "owner", "the ring's constants are the cell's wire format: one place may choose them"},
	{"github.com/labstack/echo", "httpapi", "the broker must not know by which transport a request came"},
	{"github.com/jackc/pgx", "declare", "messages never touch the store: only declarations may know there is a database"},
	{"go.etcd.io/bbolt", "declare", "messages never touch the store: only declarations may know there is a file"},
}

// pure are the rooms without clock, goroutine, I/O and knowledge of a cell, and what else they may import beside the
// standard library.
var pure = map[string][]string{
	"engine": {"github.com/cespare/xxhash", "github.com/google/btree", "github.com/tidwall/btree"},
	"owner":  {"github.com/cespare/xxhash", "github.com/buraksezer/consistent"},
}

// impure are the imports that pure rooms must not have.
var impure = map[string]string{
	"net":       "a pure room does no I/O",
	"os":        "a pure room does no I/O",
	"io":        "a pure room does no I/O",
	"syscall":   "a pure room does no I/O",
	"context":   "a pure room never blocks, so there is nothing to cancel",
	"log":       "a pure room returns errors: they are logged once, at the edge",
	"testing":   "tests live in test files",
	"os/signal": "a pure room does no I/O",
}

// clocks are the functions of package time that read or arm a clock. Time is an argument in a pure room, so that a
// test can run years of it.
var clocks = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}

type source struct {
	dir, file string
	isTest    bool
	ast       *ast.File
	lines     *token.FileSet
}

func (s *source) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", s.file, s.lines.Position(n.Pos()).Line)
}

// imports are the import paths with their local names.
func (s *source) imports() map[string]string {
	found := map[string]string{}
	for _, spec := range s.ast.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser accepted it
		}
		local := path.Base(name)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		found[name] = local
	}
	return found
}

func within(name, prefix string) bool { return name == prefix || strings.HasPrefix(name, prefix+"/") }

// sources parses every Go file of the module, whatever its build constraints.
func sources(t *testing.T) []*source {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	var all []*source
	lines := token.NewFileSet()
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			base := entry.Name()
			if name != root && (strings.HasPrefix(base, ".") || base == "testdata" || base == "node_modules" || nested(name)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		file, err := parser.ParseFile(lines, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		short, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if ignored(file) {
			return nil
		}
		all = append(all, &source{path.Dir(filepath.ToSlash(short)), short, strings.HasSuffix(name, "_test.go"), file, lines})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Fatalf("found %d files under %s: the test looks in the wrong place", len(all), root)
	}
	return all
}

// nested says that a folder is a module of its own.
func nested(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// ignored says that a file is never part of a package.
func ignored(file *ast.File) bool {
	for _, group := range file.Comments {
		if group.Pos() > file.Package {
			break
		}
		for _, c := range group.List {
			if expr, err := constraint.Parse(c.Text); err == nil && expr.String() == "ignore" {
				return true
			}
		}
	}
	return false
}

// TestImportGraph: who may enter whom. Without it the pure core grows an HTTP request or a peer's address within months.
func TestImportGraph(t *testing.T) {
	for _, s := range sources(t) {
		outside := !within(s.dir, "test")
		if outside {
			if _, ok := rooms[s.dir]; !ok && !s.isTest {
				t.Errorf("%s: package %s has no place in the graph of %s", s.file, s.dir, "test/arch_test.go")
			}
		}
		for name := range s.imports() {
			own, ours := strings.CutPrefix(name, module+"/")
			switch {
			case name == module:
				t.Errorf("%s imports the module's root, which is no package", s.file)
			case ours && outside && within(own, "test"):
				t.Errorf("%s imports %s: what only tests use must not reach a user's binary", s.file, own)
			case ours && outside && !s.isTest && own != s.dir && !slices.Contains(rooms[s.dir], own):
				t.Errorf("%s imports %s: %s may import only %v of this module", s.file, own, s.dir, rooms[s.dir])
			}
			for _, tenant := range tenants {
				if outside && !s.isTest && within(name, tenant.prefix) && s.dir != tenant.room {
					t.Errorf("%s imports %s, which lives in %s only: %s", s.file, name, tenant.room, tenant.why)
				}
			}
		}
	}
}

// TestPureRooms: the engine and the ownership table have no clock, no goroutine and no I/O; that is what makes them
// testable in virtual time over millions of steps.
func TestPureRooms(t *testing.T) {
	for _, s := range sources(t) {
		allowed, isPure := pure[s.dir]
		if !isPure || s.isTest {
			continue
		}
		imports := s.imports()
		for name := range imports {
			first, _, _ := strings.Cut(name, "/")
			if strings.Contains(first, ".") && !slices.ContainsFunc(allowed, func(a string) bool { return within(name, a) }) {
				t.Errorf("%s imports %s: %s needs the standard library and %v, no more", s.file, name, s.dir, allowed)
			}
			for banned, why := range impure {
				if within(name, banned) {
					t.Errorf("%s imports %s: %s", s.file, name, why)
				}
			}
		}
		clock := imports["time"]
		ast.Inspect(s.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine: a pure room is driven by its caller", s.at(n))
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && clock != "" && x.Name == clock && slices.Contains(clocks, n.Sel.Name) {
					t.Errorf("%s uses time.%s: time is an argument here", s.at(n), n.Sel.Name)
				}
			}
			return true
		})
		if clock == "." {
			t.Errorf("%s imports time with a dot: its clock would go unseen", s.file)
		}
	}
}

// TestPackageComments: every package starts by saying what it guarantees.
func TestPackageComments(t *testing.T) {
	documented := map[string]bool{}
	for _, s := range sources(t) {
		key := s.dir
		if s.isTest {
			// A folder of tests only may carry its comment in one of them.
			if _, ok := documented[key]; !ok && within(s.dir, "test") {
				documented[key] = false
			}
		} else if _, ok := documented[key]; !ok {
			documented[key] = false
		}
		if s.ast.Doc != nil && (!s.isTest || within(s.dir, "test")) {
			documented[key] = true
		}
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("package %s has no package comment", dir)
		}
	}
}

// TestNoPackageState: several brokers run in one process, so a package keeps no state: its variables are errors and
// tables, and nothing runs at import.
func TestNoPackageState(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest {
			continue
		}
		for _, decl := range s.ast.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Recv == nil && decl.Name.Name == "init" {
					t.Errorf("%s: func init runs behind the back of every importer", s.at(decl))
				}
			case *ast.GenDecl:
				if decl.Tok != token.VAR {
					continue
				}
				for _, spec := range decl.Specs {
					checkVariable(t, s, spec.(*ast.ValueSpec))
				}
			}
		}
	}
}

func checkVariable(t *testing.T, s *source, spec *ast.ValueSpec) {
	t.Helper()
	for i, name := range spec.Names {
		if name.Name == "_" {
			continue
		}
		// The linker writes the version into the binary; it can only write to a string variable.
		if s.ast.Name.Name == "main" && name.Name == "version" {
			continue
		}
		if i >= len(spec.Values) || !constantValue(spec.Values[i]) {
			t.Errorf("%s: package variable %s is neither an error nor a table", s.at(name), name.Name)
		}
	}
}

// constantValue says that a value is an error or a table: nothing that a program changes while it runs.
func constantValue(value ast.Expr) bool {
	switch value := value.(type) {
	case *ast.CompositeLit:
		return true
	case *ast.CallExpr:
		fun, ok := value.Fun.(*ast.SelectorExpr)
		if !ok {
			// A conversion to a slice, as []byte("...").
			_, ok = value.Fun.(*ast.ArrayType)
			return ok
		}
		x, ok := fun.X.(*ast.Ident)
		return ok && (x.Name == "errors" && fun.Sel.Name == "New" || x.Name == "fmt" && fun.Sel.Name == "Errorf")
	}
	return false
}

// TestFileSizes: a file of more than 500 lines is two things living together. A test file may hold one long table.
func TestFileSizes(t *testing.T) {
	for _, s := range sources(t) {
		limit := 500
		if s.isTest {
			limit = 800
		}
		if n := s.lines.File(s.ast.FileStart).LineCount(); n > limit {
			t.Errorf("%s has %d lines", s.file, n)
		}
	}
}
