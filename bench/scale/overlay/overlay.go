package overlay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Packages are the ones that are marked, those that are imported first first.
var Packages = []string{"corelane/percpu", "corelane/memacct", "corelane/lru", "corelane/rhmap", "corelane/reasm"}

// replaced are files with a body in another language, as it were.
var replaced = map[string]string{
	"corelane/percpu/pin.go": `package percpu

import "corelane/bench/scale/smp"

func pin() int { return smp.CPU() }
func unpin()   {}
`,
}

// sites names the places; 0 is for what has no name.
type sites struct {
	names []string
	ids   map[string]int
}

func (s *sites) id(name string) int {
	if s.ids == nil {
		s.ids = make(map[string]int)
		s.names = []string{"?"}
	}
	id, ok := s.ids[name]
	if !ok {
		id = len(s.names)
		s.ids[name] = id
		s.names = append(s.names, name)
	}
	return id
}

// Result is a library that was marked.
type Result struct {
	Files map[string][]byte // new text by path
	Sites []string          // names by number
}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// Rewrite marks the library. dir is where go commands run: inside of the bench
// module.
func Rewrite(dir string) (*Result, error) {
	pkgs, err := list(dir)
	if err != nil {
		return nil, err
	}
	res := &Result{Files: make(map[string][]byte)}
	var s sites
	err = check(pkgs, nil, func(fset *token.FileSet, p *listed, files []*ast.File, info *types.Info, pkg *types.Package) error {
		for i, f := range files {
			path := filepath.Join(p.Dir, p.GoFiles[i])
			if text, ok := replaced[p.ImportPath+"/"+p.GoFiles[i]]; ok {
				res.Files[path] = []byte(text)
				continue
			}
			src, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			r := &rewriter{fset: fset, info: info, pkg: pkg, file: fset.File(f.Pos()), src: src, sites: &s}
			r.rewriteFile(f)
			if r.err != nil {
				return r.err
			}
			res.Files[path] = r.apply()
		}
		return nil
	})
	res.Sites = s.names
	return res, err
}

// list asks go for the packages, and for the compiled form of what they import.
func list(dir string) (map[string]*listed, error) {
	args := append([]string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles", "corelane/bench/scale/smp"}, Packages...)
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("overlay: go list in %s: %w: %s", dir, err, &stderr)
	}
	pkgs := make(map[string]*listed)
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(listed)
		switch err := dec.Decode(p); err {
		case nil:
			pkgs[p.ImportPath] = p
		case io.EOF:
			return pkgs, nil
		default:
			return nil, fmt.Errorf("overlay: go list: %w", err)
		}
	}
}

// check parses and type-checks Packages, with other texts in place of files where
// there are some, and calls visit for each.
func check(pkgs map[string]*listed, texts map[string][]byte,
	visit func(*token.FileSet, *listed, []*ast.File, *types.Info, *types.Package) error,
) error {
	fset := token.NewFileSet()
	done := make(map[string]*types.Package)
	compiled := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if p := pkgs[path]; p != nil && p.Export != "" {
			return os.Open(p.Export)
		}
		return nil, fmt.Errorf("no export data of %s", path)
	})
	for _, path := range Packages {
		p := pkgs[path]
		if p == nil {
			return fmt.Errorf("overlay: go list does not know %s", path)
		}
		var files []*ast.File
		for _, name := range p.GoFiles {
			at := filepath.Join(p.Dir, name)
			var src any
			if t, ok := texts[at]; ok {
				src = t
			}
			f, err := parser.ParseFile(fset, at, src, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return fmt.Errorf("overlay: %w", err)
			}
			files = append(files, f)
		}
		info := &types.Info{
			Types: make(map[ast.Expr]types.TypeAndValue), Uses: make(map[*ast.Ident]types.Object),
			Defs: make(map[*ast.Ident]types.Object), Selections: make(map[*ast.SelectorExpr]*types.Selection),
		}
		cfg := types.Config{Importer: importerFunc(func(path string) (*types.Package, error) {
			if p := done[path]; p != nil {
				return p, nil
			}
			return compiled.Import(path)
		})}
		pkg, err := cfg.Check(path, fset, files, info)
		if err != nil {
			return fmt.Errorf("overlay: %w", err)
		}
		done[path] = pkg
		if err := visit(fset, p, files, info, pkg); err != nil {
			return fmt.Errorf("overlay: %w", err)
		}
	}
	return nil
}

type importerFunc func(path string) (*types.Package, error)

func (f importerFunc) Import(path string) (*types.Package, error) { return f(path) }

// Write puts the marked sources into a directory and returns the file that go
// build -overlay wants.
func (res *Result) Write(dir string) (string, error) {
	var spec struct{ Replace map[string]string }
	spec.Replace = make(map[string]string)
	for path, text := range res.Files {
		to := filepath.Join(dir, strings.ReplaceAll(filepath.ToSlash(path), "/", "_"))
		if err := os.WriteFile(to, text, 0o644); err != nil {
			return "", err
		}
		spec.Replace[path] = to
	}
	names, err := json.Marshal(res.Sites)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "sites.json"), names, 0o644); err != nil {
		return "", err
	}
	b, err := json.Marshal(spec)
	if err != nil {
		return "", err
	}
	to := filepath.Join(dir, "overlay.json")
	return to, os.WriteFile(to, b, 0o644)
}
