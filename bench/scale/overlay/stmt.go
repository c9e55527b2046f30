package overlay

import (
	"go/ast"
	"go/token"
	"go/types"
)

func (r *rewriter) stmts(list []ast.Stmt) {
	for _, s := range list {
		r.stmt(s)
	}
}

func (r *rewriter) stmt(s ast.Stmt) {
	switch s := s.(type) {
	case nil, *ast.EmptyStmt, *ast.BranchStmt:
	case *ast.BlockStmt:
		if s != nil {
			r.stmts(s.List)
		}
	case *ast.ExprStmt:
		r.expr(s.X, load)
	case *ast.AssignStmt:
		for _, l := range s.Lhs {
			r.expr(l, change)
		}
		r.exprs(s.Rhs...)
	case *ast.IncDecStmt:
		r.expr(s.X, change)
	case *ast.DeclStmt:
		r.decl(s.Decl.(*ast.GenDecl))
	case *ast.IfStmt:
		r.stmt(s.Init)
		r.expr(s.Cond, load)
		r.stmt(s.Body)
		r.stmt(s.Else)
	case *ast.ForStmt:
		r.stmt(s.Init)
		r.expr(s.Cond, load)
		r.stmt(s.Post)
		r.stmt(s.Body)
	case *ast.RangeStmt:
		r.rangeOver(s)
	case *ast.SwitchStmt:
		r.stmt(s.Init)
		r.expr(s.Tag, load)
		r.stmt(s.Body)
	case *ast.TypeSwitchStmt:
		r.stmt(s.Init)
		r.stmt(s.Assign)
		r.stmt(s.Body)
	case *ast.CaseClause:
		r.exprs(s.List...)
		r.stmts(s.Body)
	case *ast.SelectStmt:
		r.stmt(s.Body)
	case *ast.CommClause:
		r.stmt(s.Comm)
		r.stmts(s.Body)
	case *ast.LabeledStmt:
		r.stmt(s.Stmt)
	case *ast.GoStmt:
		r.call(s.Call)
	case *ast.DeferStmt:
		r.call(s.Call)
	case *ast.ReturnStmt:
		r.exprs(s.Results...)
	case *ast.SendStmt:
		r.exprs(s.Chan, s.Value)
	default:
		r.fail(s, "what is a %T?", s)
	}
}

func (r *rewriter) rangeOver(s *ast.RangeStmt) {
	if isArray(r.info.TypeOf(s.X)) && s.Value == nil {
		r.expr(s.X, place)
	} else {
		r.expr(s.X, load)
	}
	if s.Tok == token.ASSIGN {
		r.expr(s.Key, change)
		r.expr(s.Value, change)
	}
	r.stmt(s.Body)
}

func (r *rewriter) decl(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		if v, ok := spec.(*ast.ValueSpec); ok && d.Tok == token.VAR {
			r.exprs(v.Values...)
		}
	}
}

// ours are the functions of other packages that marks replaces, beside all of sync
// and sync/atomic.
var ours = map[string]bool{"runtime.Gosched": true, "runtime.GOMAXPROCS": true}

// known is what marks has of sync and sync/atomic.
var known = map[string]bool{
	"Mutex": true, "Cond": true, "Once": true, "Locker": true, "Pool": true,
	"Int32": true, "Int64": true, "Uint32": true, "Uint64": true, "Bool": true, "Pointer": true,
}

func init() {
	for _, t := range []string{"Pointer", "Uint64", "Int64", "Uint32", "Int32"} {
		for _, op := range []string{"Load", "Store", "Swap", "CompareAndSwap", "Add"} {
			if t != "Pointer" || op != "Add" {
				known[op+t] = true
			}
		}
	}
}

// packages replaces what is used of sync, sync/atomic and runtime.
func (r *rewriter) packages(f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		e, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		id, ok := e.X.(*ast.Ident)
		if !ok {
			return true
		}
		name, ok := r.info.Uses[id].(*types.PkgName)
		if !ok {
			return true
		}
		switch path := name.Imported().Path(); {
		case path == "sync" || path == "sync/atomic":
			if !known[e.Sel.Name] {
				r.fail(e, "%s.%s has no stand-in", path, e.Sel.Name)
			}
			r.replace(id, "smp")
		case ours[path+"."+e.Sel.Name]:
			r.replace(id, "smp")
		}
		return true
	})
	for _, imp := range f.Imports {
		if path := imp.Path.Value; imp.Name == nil && (path == `"sync"` || path == `"sync/atomic"` || path == `"runtime"`) {
			r.insert(imp.Pos(), "_ ")
			if path == `"runtime"` {
				r.edits[len(r.edits)-1].text = "" // kept in use below
				r.insert(f.FileEnd, "\nvar _ = runtime.Version\n")
			}
		}
	}
	r.insert(f.Name.End(), `; import "corelane/bench/scale/smp"`)
	r.insert(f.FileEnd, "\nvar _ = smp.CPU\n")
}

// rewriteFile marks a file.
func (r *rewriter) rewriteFile(f *ast.File) {
	r.packages(f)
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			r.fn = d.Name.Name
			r.stmt(d.Body)
		case *ast.GenDecl:
			r.fn = "init"
			r.decl(d)
		}
	}
}
