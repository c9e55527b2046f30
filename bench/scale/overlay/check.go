package overlay

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// Check looks for what Rewrite left unmarked. It goes through the marked sources
// anew, node by node, and asks of each place in memory whether a mark stands around
// it, or only its address is taken. It shares the idea of what is in memory with the
// rewriter, but not its way through the sources. dir is as for Rewrite.
func (res *Result) Check(dir string) error {
	pkgs, err := list(dir)
	if err != nil {
		return err
	}
	var escaped []string
	err = check(pkgs, res.Files, func(fset *token.FileSet, p *listed, files []*ast.File, info *types.Info, pkg *types.Package) error {
		c := checker{info: info, pkg: pkg}
		for i, f := range files {
			if _, ok := replaced[p.ImportPath+"/"+p.GoFiles[i]]; ok {
				continue
			}
			for _, n := range c.file(f) {
				escaped = append(escaped, fmt.Sprintf("%v: %s", fset.Position(n.at), n.why))
			}
		}
		return nil
	})
	if err == nil && len(escaped) > 0 {
		err = fmt.Errorf("overlay: %d unmarked:\n%s", len(escaped), strings.Join(escaped[:min(len(escaped), 20)], "\n"))
	}
	return err
}

type checker struct {
	info *types.Info
	pkg  *types.Package
}

type found struct {
	at  token.Pos
	why string
}

func (c *checker) file(f *ast.File) (out []found) {
	for _, group := range f.Comments {
		for _, line := range group.List {
			if strings.HasPrefix(line.Text, "//go:linkname") {
				out = append(out, found{line.Pos(), "a function of the runtime"})
			}
		}
	}
	var stack []ast.Node
	ast.Inspect(f, func(n ast.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		if e, ok := n.(ast.Expr); ok {
			if why := c.escapes(e, stack); why != "" {
				out = append(out, found{n.Pos(), why})
			}
		}
		stack = append(stack, n)
		return true
	})
	return out
}

// escapes says why an expression should have been marked, or replaced.
func (c *checker) escapes(e ast.Expr, stack []ast.Node) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		if id, ok := s.X.(*ast.Ident); ok {
			if p, ok := c.info.Uses[id].(*types.PkgName); ok {
				path := p.Imported().Path()
				if path == "sync" || path == "sync/atomic" || ours[path+"."+s.Sel.Name] {
					return path + "." + s.Sel.Name
				}
			}
		}
	}
	tv := c.info.Types[e]
	if tv.IsType() || tv.Value != nil || !inMemory(c.info, c.pkg, e) || c.isMark(e) {
		return ""
	}
	for _, up := range stack {
		if x, ok := up.(ast.Expr); ok && c.info.Types[x].Value != nil {
			return "" // unsafe.Sizeof and the like look at types alone
		}
	}
	if id, ok := e.(*ast.Ident); ok && len(stack) > 0 {
		if kv, ok := stack[len(stack)-1].(*ast.KeyValueExpr); ok && kv.Key == id {
			return ""
		}
	}
	if c.onlyPlace(e, stack) {
		return ""
	}
	return types.ExprString(e)
}

// isMark reports whether e is (*smp.R(...)).
func (c *checker) isMark(e ast.Expr) bool {
	star, ok := ast.Unparen(e).(*ast.StarExpr)
	if !ok {
		return false
	}
	call, ok := star.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	fun, ok := call.Fun.(*ast.SelectorExpr)
	return ok && slices.Contains([]string{"R", "P", "W"}, fun.Sel.Name) && types.ExprString(fun.X) == "smp"
}

// onlyPlace reports whether what stands around e takes its address, or a part of it.
func (c *checker) onlyPlace(e ast.Expr, stack []ast.Node) bool {
	for i := len(stack) - 1; i >= 0; i-- {
		switch up := stack[i].(type) {
		case *ast.ParenExpr:
			e = up
			continue
		case *ast.UnaryExpr:
			return up.Op == token.AND
		case *ast.SelectorExpr:
			if up.X != e || isPointer(c.info.TypeOf(e)) {
				return false
			}
			sel := c.info.Selections[up]
			if sel == nil {
				return false
			}
			if sel.Kind() == types.FieldVal {
				return true // the field is looked at in its turn
			}
			return isPointer(sel.Obj().(*types.Func).Signature().Recv().Type())
		case *ast.IndexExpr:
			return up.X == e && isArray(c.info.TypeOf(e))
		case *ast.SliceExpr:
			return up.X == e && isArray(c.info.TypeOf(e))
		case *ast.RangeStmt:
			return up.X == e && isArray(c.info.TypeOf(e)) && up.Value == nil
		case *ast.CallExpr:
			name, ok := ast.Unparen(up.Fun).(*ast.Ident)
			if !ok {
				return false
			}
			_, builtin := c.info.Uses[name].(*types.Builtin)
			return builtin && (name.Name == "len" || name.Name == "cap") && !isSliceLike(c.info.TypeOf(e))
		default:
			return false
		}
	}
	return false
}
