package overlay

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// access is what an expression's value is wanted for.
type access int

const (
	load   access = iota
	change        // stored, or loaded and stored
	place         // only where it is: its address is taken, or it is part of a larger place
)

// rewriter marks the accesses of one file.
type rewriter struct {
	fset  *token.FileSet
	info  *types.Info
	pkg   *types.Package
	file  *token.File
	src   []byte
	sites *sites
	fn    string // the function at hand, for names
	edits []edit
	err   error
}

// edit puts text in place of n bytes.
type edit struct {
	at, n int
	text  string
}

// apply returns the source with all edits. Edits at one place keep their order: an
// outer expression is opened before an inner one, and closed after it.
func (r *rewriter) apply() []byte {
	slices.SortStableFunc(r.edits, func(a, b edit) int { return a.at - b.at })
	var out []byte
	from := 0
	for _, e := range r.edits {
		out = append(out, r.src[from:e.at]...)
		out = append(out, e.text...)
		from = e.at + e.n
	}
	return append(out, r.src[from:]...)
}

func (r *rewriter) insert(at token.Pos, text string) {
	r.edits = append(r.edits, edit{at: r.file.Offset(at), text: text})
}

func (r *rewriter) replace(n ast.Node, text string) {
	r.edits = append(r.edits, edit{r.file.Offset(n.Pos()), int(n.End() - n.Pos()), text})
}

func (r *rewriter) text(n ast.Node) string {
	return string(r.src[r.file.Offset(n.Pos()):r.file.Offset(n.End())])
}

// wrap puts open and close around an expression, whose inside is visited between.
func (r *rewriter) wrap(e ast.Expr, open, close string, inside func()) {
	r.insert(e.Pos(), open)
	inside()
	r.insert(e.End(), close)
}

// mark wraps an access to a place in memory.
func (r *rewriter) mark(e ast.Expr, a access, inside func()) {
	fn := "R"
	switch {
	case a == change:
		fn = "W"
	case isAddress(r.info.TypeOf(e)):
		fn = "P"
	}
	r.wrap(e, "(*smp."+fn+"(&", fmt.Sprintf(", %d))", r.sites.id(r.name(e))), inside)
}

func isAddress(t types.Type) bool {
	switch u := t.Underlying().(type) {
	case *types.Pointer, *types.Slice, *types.Map, *types.Chan, *types.Interface, *types.Signature:
		_, generic := t.(*types.TypeParam)
		return !generic
	case *types.Basic:
		return u.Kind() == types.UnsafePointer
	}
	return false
}

// expr visits an expression whose value is wanted for a.
func (r *rewriter) expr(e ast.Expr, a access) {
	if e == nil {
		return
	}
	if tv := r.info.Types[e]; tv.IsType() || tv.Value != nil {
		return // a constant must stay one
	}
	switch e := e.(type) {
	case *ast.ParenExpr:
		r.expr(e.X, a)
	case *ast.Ident:
		if a != place && r.inMemory(e) {
			r.mark(e, a, func() {})
		}
	case *ast.SelectorExpr:
		r.selector(e, a)
	case *ast.IndexExpr:
		r.index(e, a)
	case *ast.StarExpr:
		if inside := func() { r.expr(e.X, load) }; a == place {
			inside()
		} else {
			r.mark(e, a, inside)
		}
	case *ast.UnaryExpr:
		if e.Op == token.AND {
			r.expr(e.X, place)
		} else {
			r.expr(e.X, load)
		}
	case *ast.SliceExpr:
		if isArray(r.info.TypeOf(e.X)) {
			r.expr(e.X, place)
		} else {
			r.expr(e.X, load)
		}
		r.exprs(e.Low, e.High, e.Max)
	case *ast.CallExpr:
		r.call(e)
	case *ast.FuncLit:
		r.stmt(e.Body)
	case *ast.CompositeLit:
		r.composite(e)
	case *ast.TypeAssertExpr:
		r.expr(e.X, load)
	case *ast.BinaryExpr:
		r.exprs(e.X, e.Y)
	case *ast.IndexListExpr: // an instantiation
	default:
		r.fail(e, "what is a %T?", e)
	}
}

func (r *rewriter) exprs(es ...ast.Expr) {
	for _, e := range es {
		r.expr(e, load)
	}
}

func (r *rewriter) fail(n ast.Node, format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%v: %s", r.fset.Position(n.Pos()), fmt.Sprintf(format, args...))
	}
}

func (r *rewriter) selector(e *ast.SelectorExpr, a access) {
	sel := r.info.Selections[e]
	if sel == nil {
		return // of another package
	}
	if sel.Kind() != types.FieldVal {
		if sel.Kind() == types.MethodVal {
			r.receiver(e, sel)
		}
		return
	}
	inside := func() {
		if isPointer(r.info.TypeOf(e.X)) {
			r.expr(e.X, load)
		} else {
			r.expr(e.X, place)
		}
	}
	if a == place || !r.inMemory(e) {
		inside()
	} else {
		r.mark(e, a, inside)
	}
}

// receiver visits what a method is called on.
func (r *rewriter) receiver(e *ast.SelectorExpr, sel *types.Selection) {
	method := sel.Obj().(*types.Func)
	x := r.info.TypeOf(e.X)
	recv := method.Signature().Recv().Type()
	if named := syncType(recv); named != "" && named != "Pool" && named != "Once" && named != "Cond" {
		end := fmt.Sprintf(", %d)", r.sites.id(r.name(e.X)))
		if isPointer(x) {
			r.wrap(e.X, "smp.At(", end, func() { r.expr(e.X, load) })
		} else {
			r.wrap(e.X, "smp.At(&", end, func() { r.expr(e.X, place) })
		}
		return
	}
	if isPointer(recv) && !isPointer(x) {
		r.expr(e.X, place)
	} else {
		r.expr(e.X, load)
	}
}

func (r *rewriter) index(e *ast.IndexExpr, a access) {
	if r.info.Types[e.X].IsType() {
		return
	}
	x := r.info.TypeOf(e.X)
	switch under(x).(type) {
	case *types.Signature: // an instantiation
		return
	case *types.Map:
		fn := "smp.MR("
		if a == change {
			fn = "smp.MW("
		}
		r.wrap(e.X, fn, fmt.Sprintf(", %d)", r.sites.id(r.name(e.X)+"[key]")), func() { r.expr(e.X, load) })
		r.expr(e.Index, load)
		return
	}
	inside := func() {
		if isArray(x) {
			r.expr(e.X, place)
		} else {
			r.expr(e.X, load)
		}
		r.expr(e.Index, load)
	}
	if a == place || !r.inMemory(e) {
		inside()
	} else {
		r.mark(e, a, inside)
	}
}

func (r *rewriter) call(e *ast.CallExpr) {
	if r.info.Types[e.Fun].IsType() {
		r.exprs(e.Args...)
		return
	}
	if name := r.builtin(e.Fun); name != "" {
		switch {
		case (name == "len" || name == "cap") && !isSliceLike(r.info.TypeOf(e.Args[0])):
			// The length of an array is in its type.
		case name == "new" || name == "make":
			r.exprs(e.Args[1:]...)
		case name == "delete":
			r.wrap(e.Args[0], "smp.MW(", fmt.Sprintf(", %d)", r.sites.id(r.name(e.Args[0])+"[key]")),
				func() { r.expr(e.Args[0], load) })
			r.exprs(e.Args[1:]...)
		default:
			r.exprs(e.Args...)
		}
		return
	}
	r.expr(e.Fun, load)
	r.exprs(e.Args...)
}

func (r *rewriter) builtin(fun ast.Expr) string {
	switch f := ast.Unparen(fun).(type) {
	case *ast.Ident:
		if b, ok := r.info.Uses[f].(*types.Builtin); ok {
			return b.Name()
		}
	case *ast.SelectorExpr:
		if b, ok := r.info.Uses[f.Sel].(*types.Builtin); ok {
			return "unsafe." + b.Name()
		}
	}
	return ""
}

func (r *rewriter) composite(e *ast.CompositeLit) {
	_, isStruct := under(r.info.TypeOf(e)).(*types.Struct)
	for _, el := range e.Elts {
		if kv, ok := el.(*ast.KeyValueExpr); ok {
			if !isStruct {
				r.expr(kv.Key, load)
			}
			el = kv.Value
		}
		r.expr(el, load)
	}
}

// inMemory reports whether a place may be seen by other CPUs: it is reached through
// a pointer or slice, or is a package's variable. Parameters and local variables
// are not.
func (r *rewriter) inMemory(e ast.Expr) bool { return inMemory(r.info, r.pkg, e) }

func inMemory(info *types.Info, pkg *types.Package, e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return inMemory(info, pkg, e.X)
	case *ast.Ident:
		v, ok := info.Uses[e].(*types.Var)
		return ok && v.Parent() == pkg.Scope()
	case *ast.SelectorExpr:
		sel := info.Selections[e]
		if sel == nil || sel.Kind() != types.FieldVal {
			return false
		}
		return sel.Indirect() || isPointer(info.TypeOf(e.X)) || inMemory(info, pkg, e.X)
	case *ast.IndexExpr:
		switch x := info.TypeOf(e.X); under(x).(type) {
		case *types.Slice, *types.Pointer:
			return true
		case *types.Map, *types.Signature:
			return false
		default:
			return isArray(x) && inMemory(info, pkg, e.X)
		}
	case *ast.StarExpr:
		return !info.Types[e].IsType()
	}
	return false
}

func under(t types.Type) types.Type { return t.Underlying() }

func isPointer(t types.Type) bool {
	_, ok := t.Underlying().(*types.Pointer)
	return ok
}

// isArray also holds for type parameters, which here are arrays if they can be
// indexed at all.
func isArray(t types.Type) bool {
	if _, ok := t.(*types.TypeParam); ok {
		return true
	}
	_, ok := t.Underlying().(*types.Array)
	return ok
}

func isSliceLike(t types.Type) bool {
	switch t.Underlying().(type) {
	case *types.Slice, *types.Map, *types.Chan, *types.Basic:
		return true
	}
	return false
}

// syncType returns the name of a type of sync or sync/atomic, or of a pointer to
// one; "" for others.
func syncType(t types.Type) string {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	n, ok := t.(*types.Named)
	if !ok || n.Obj().Pkg() == nil {
		return ""
	}
	switch n.Obj().Pkg().Path() {
	case "sync", "sync/atomic":
		return n.Obj().Name()
	}
	return ""
}

// name says what stands at a place: the type and field, as far as there is one.
func (r *rewriter) name(e ast.Expr) string {
	switch e := ast.Unparen(e).(type) {
	case *ast.SelectorExpr:
		if sel := r.info.Selections[e]; sel != nil && sel.Kind() == types.FieldVal {
			t := r.info.TypeOf(e.X)
			if p, ok := t.Underlying().(*types.Pointer); ok {
				t = p.Elem()
			}
			if n, ok := t.(*types.Named); ok {
				return n.Obj().Pkg().Name() + "." + n.Obj().Name() + "." + e.Sel.Name
			}
			if x := r.name(e.X); !strings.Contains(x, ":") {
				return x + "." + e.Sel.Name
			}
		}
	case *ast.IndexExpr:
		if x := r.name(e.X); !strings.Contains(x, ":") {
			return x + "[]"
		}
	case *ast.Ident:
		if r.inMemory(e) {
			return r.pkg.Name() + "." + e.Name
		}
	}
	return r.pkg.Name() + "." + r.fn + ": " + r.text(e)
}
