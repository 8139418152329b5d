// Command govalidations prints, as JSON, the rules that the types of the Kubernetes API declare about their fields, as
// validation-gen wrote them into `zz_generated.validations.go`. It only reads source:
//
//	go run ./scripts/record/govalidations KUBERNETES API APIMACHINERY    the folders of the three modules
//
// The answer is one object:
//
//	requests  {type: [subresource, ...]}: the kinds that are checked, "/" for the object itself
//	types     {type: [step, ...]}, in the order in which they are taken
//
// A step is one of
//
//	["field", JSON name, [step, ...]]   the steps of a field, which are left out if an update does not change it
//	["group", [step, ...]]              steps that stop for themselves
//	["type", type]                      the steps of another type, for the same value
//	[flags, check, argument, ...]       a check of `k8s.io/apimachinery/pkg/api/validate`; flags are a for alpha, b for
//	                                    beta, s if an error stops the steps after those that stop, q if it is no error
//
// Arguments are numbers, texts, lists and null; {"check": name} is a check for each item, {"steps": [step, ...]} are
// several, {"keys": [Go name, ...]} the fields that tell items apart, {"field": Go name} a field that is looked at,
// {"item": {Go name: text}} an item that is looked for.
package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

type source struct {
	imports map[string]string        // path of a package by its name in the file
	values  map[string]ast.Expr      // of variables and constants
	checks  map[string]*ast.FuncDecl // Validate_ functions
	here    string                   // the path of the package
}

var (
	roots    = map[string]string{} // folder by the path of a module
	consts   = map[string]map[string]string{}
	packages = map[string]*source{}
	requests = map[string][]string{}
	types    = map[string][]any{}
)

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}

func must[T any](value T, err error) T {
	if err != nil {
		fail("%v", err)
	}
	return value
}

// importsOf returns the paths of the packages that a file imports, by their names in it.
func importsOf(tree *ast.File) map[string]string {
	imports := map[string]string{}
	for _, spec := range tree.Imports {
		from := must(strconv.Unquote(spec.Path.Value))
		name := filepath.Base(from)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imports[name] = from
	}
	return imports
}

// load reads the generated file of a package.
func load(path, file string) *source {
	tree := must(parser.ParseFile(token.NewFileSet(), file, nil, 0))
	src := &source{importsOf(tree), map[string]ast.Expr{}, map[string]*ast.FuncDecl{}, path}
	for _, decl := range tree.Decls {
		switch decl := decl.(type) {
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if value, ok := spec.(*ast.ValueSpec); ok && len(value.Values) == 1 {
					src.values[value.Names[0].Name] = value.Values[0]
				}
			}
		case *ast.FuncDecl:
			src.checks[decl.Name.Name] = decl
		}
	}
	packages[path] = src
	return src
}

// constants returns {name: value} of the texts that a package declares.
func constants(path string) map[string]string {
	if known, ok := consts[path]; ok {
		return known
	}
	known := map[string]string{}
	consts[path] = known
	for module, folder := range roots {
		rest, ok := strings.CutPrefix(path, module+"/")
		if !ok {
			continue
		}
		for _, file := range must(filepath.Glob(filepath.Join(folder, rest, "*.go"))) {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			tree := must(parser.ParseFile(token.NewFileSet(), file, nil, 0))
			imported := importsOf(tree)
			for _, decl := range tree.Decls {
				group, ok := decl.(*ast.GenDecl)
				if !ok || group.Tok != token.CONST {
					continue
				}
				for _, spec := range group.Specs {
					value := spec.(*ast.ValueSpec)
					for i, name := range value.Names {
						if i < len(value.Values) {
							given := value.Values[i]
							if converted, ok := given.(*ast.CallExpr); ok && len(converted.Args) == 1 {
								given = converted.Args[0]
							}
							switch given := given.(type) {
							case *ast.BasicLit:
								if given.Kind == token.STRING {
									known[name.Name] = must(strconv.Unquote(given.Value))
								}
							case *ast.SelectorExpr:
								if text, ok := constants(imported[nameOf(given.X)])[given.Sel.Name]; ok {
									known[name.Name] = text
								}
							}
						}
					}
				}
			}
		}
	}
	return known
}

// typeName returns the full name of the type of an expression such as *v1.Pod.
func (src *source) typeName(expr ast.Expr) string {
	switch expr := expr.(type) {
	case *ast.StarExpr:
		return src.typeName(expr.X)
	case *ast.ParenExpr:
		return src.typeName(expr.X)
	case *ast.SelectorExpr:
		return src.imports[expr.X.(*ast.Ident).Name] + "." + expr.Sel.Name
	case *ast.Ident:
		return src.here + "." + expr.Name
	}
	fail("%s: a type of form %T", src.here, expr)
	return ""
}

// checked returns the type that a Validate_ function is about, and its declaration.
func (src *source) checked(fun ast.Expr) string {
	where, name := src, ""
	switch fun := fun.(type) {
	case *ast.Ident:
		name = fun.Name
	case *ast.SelectorExpr:
		path := src.imports[fun.X.(*ast.Ident).Name]
		name = fun.Sel.Name
		if where = packages[path]; where == nil {
			fail("%s: %s is not read", src.here, path)
		}
	}
	decl, ok := where.checks[name]
	if !ok {
		fail("%s: there is no %s", where.here, name)
	}
	fields := decl.Type.Params.List
	what := where.typeName(fields[len(fields)-1].Type)
	if _, done := types[what]; !done {
		types[what] = nil
		types[what] = where.steps(decl.Body.List)
	}
	return what
}

// call returns the function and the arguments of validate.X(...).MarkBeta().MarkShortCircuit(), with its flags.
func call(expr ast.Expr) (*ast.CallExpr, string) {
	flags := ""
	for {
		made, ok := expr.(*ast.CallExpr)
		if !ok {
			return nil, ""
		}
		marked, ok := made.Fun.(*ast.SelectorExpr)
		if !ok {
			return made, flags
		}
		switch marked.Sel.Name {
		case "MarkAlpha":
			flags += "a"
		case "MarkBeta":
			flags += "b"
		case "MarkShortCircuit":
			flags += "s"
		default:
			return made, flags
		}
		expr = marked.X
	}
}

func nameOf(fun ast.Expr) string {
	switch fun := fun.(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		return fun.Sel.Name
	case *ast.IndexExpr:
		return nameOf(fun.X)
	}
	return ""
}

// step returns the step of a call, with more flags.
func (src *source) step(made *ast.CallExpr, flags string) []any {
	name := nameOf(made.Fun)
	if strings.HasPrefix(name, "Validate_") {
		return []any{"type", src.checked(made.Fun)}
	}
	step := []any{flags, name}
	for _, arg := range made.Args[min(5, len(made.Args)):] {
		step = append(step, src.argument(arg))
	}
	return step
}

// steps returns the steps of a block.
func (src *source) steps(block []ast.Stmt) []any {
	out := []any{}
	for _, stmt := range block {
		switch stmt := stmt.(type) {
		case *ast.IfStmt: // if e := validate.X(...); len(e) != 0 { errs = append(errs, e...); earlyReturn = true }
			if stmt.Init == nil {
				continue
			}
			made, flags := call(stmt.Init.(*ast.AssignStmt).Rhs[0])
			kept := false
			for _, inner := range stmt.Body.List {
				if assigned, ok := inner.(*ast.AssignStmt); ok {
					kept = kept || nameOf(assigned.Lhs[0]) == "errs"
				}
			}
			if !kept {
				flags += "q"
			}
			out = append(out, src.step(made, flags))
		case *ast.BlockStmt: // { fn := func(...) {...}; errs = append(errs, fn(fldPath.Child("name"), ...)...) }
			body := stmt.List[0].(*ast.AssignStmt).Rhs[0].(*ast.FuncLit).Body.List
			appended := stmt.List[len(stmt.List)-1].(*ast.AssignStmt).Rhs[0].(*ast.CallExpr)
			path := appended.Args[1].(*ast.CallExpr).Args[0]
			name := ""
			if child, ok := path.(*ast.CallExpr); ok { // else the field is inlined
				if text, ok := child.Args[0].(*ast.BasicLit); ok {
					name = must(strconv.Unquote(text.Value))
				}
			}
			out = append(out, []any{"field", name, src.steps(body[1:])})
		case *ast.ExprStmt: // func() { ... }()
			if made, ok := stmt.X.(*ast.CallExpr); ok {
				if literal, ok := made.Fun.(*ast.FuncLit); ok {
					out = append(out, []any{"group", src.steps(literal.Body.List)})
				}
			}
		case *ast.AssignStmt: // errs = append(errs, Validate_X(...)...)
			if made, ok := stmt.Rhs[0].(*ast.CallExpr); ok && nameOf(made.Fun) == "append" {
				inner, flags := call(made.Args[1])
				out = append(out, src.step(inner, flags))
			}
		case *ast.ReturnStmt:
			if len(stmt.Results) == 1 {
				if made, flags := call(stmt.Results[0]); made != nil {
					out = append(out, src.step(made, flags))
				}
			}
		}
	}
	return out
}

// argument returns an argument of a check.
func (src *source) argument(expr ast.Expr) any {
	switch expr := expr.(type) {
	case *ast.BasicLit:
		if expr.Kind == token.STRING {
			return must(strconv.Unquote(expr.Value))
		}
		return json.Number(expr.Value)
	case *ast.UnaryExpr:
		return json.Number("-" + expr.X.(*ast.BasicLit).Value)
	case *ast.Ident:
		switch expr.Name {
		case "nil":
			return nil
		case "true", "false":
			return expr.Name == "true"
		}
		if strings.HasPrefix(expr.Name, "Validate_") {
			return map[string]any{"steps": []any{[]any{"type", src.checked(expr)}}}
		}
		if value, ok := src.values[expr.Name]; ok {
			return src.argument(value)
		}
		return map[string]any{"check": expr.Name}
	case *ast.SelectorExpr:
		if strings.HasPrefix(expr.Sel.Name, "Validate_") {
			return map[string]any{"steps": []any{[]any{"type", src.checked(expr)}}}
		}
		path := src.imports[expr.X.(*ast.Ident).Name]
		if text, ok := constants(path)[expr.Sel.Name]; ok {
			return text
		}
		if path != "k8s.io/apimachinery/pkg/api/validate" {
			fail("%s: unknown constant %s.%s", src.here, path, expr.Sel.Name)
		}
		return map[string]any{"check": expr.Sel.Name}
	case *ast.CallExpr: // sets.New(...), validate.NewUnionMembership(validate.NewUnionMember("x"), ...)
		if nameOf(expr.Fun) == "NewUnionMember" || nameOf(expr.Fun) == "NewDiscriminatedUnionMember" {
			return src.argument(expr.Args[0])
		}
		list := []any{}
		for _, arg := range expr.Args {
			list = append(list, src.argument(arg))
		}
		return list
	case *ast.CompositeLit:
		list := []any{}
		for _, item := range expr.Elts {
			if rule, ok := item.(*ast.CompositeLit); ok { // {Value: "x", Validation: func ...}
				pair := []any{}
				for _, part := range rule.Elts {
					pair = append(pair, src.argument(part.(*ast.KeyValueExpr).Value))
				}
				list = append(list, pair)
				continue
			}
			list = append(list, src.argument(item))
		}
		return list
	case *ast.FuncLit:
		return src.literal(expr)
	}
	fail("%s: an argument of form %T", src.here, expr)
	return nil
}

// literal returns what a function without name stands for.
func (src *source) literal(fun *ast.FuncLit) any {
	params := fun.Type.Params.List
	if result := fun.Type.Results.List[0].Type; nameOf(result) == "ErrorList" {
		return map[string]any{"steps": src.steps(fun.Body.List)}
	}
	if len(params) == 2 || len(params[0].Names) == 2 { // func(a, b *T) bool { return a.Name == b.Name }
		return map[string]any{"keys": selected(fun.Body, params[0].Names[0].Name)}
	}
	name := params[0].Names[0].Name
	if _, list := params[0].Type.(*ast.ArrayType); list { // func(list []T) bool {... list[i].Type == "Approved" ...}
		item := map[string]string{}
		ast.Inspect(fun.Body, func(node ast.Node) bool {
			if compared, ok := node.(*ast.BinaryExpr); ok && compared.Op == token.EQL {
				if field, ok := compared.X.(*ast.SelectorExpr); ok {
					item[field.Sel.Name] = src.argument(compared.Y).(string)
				}
			}
			return true
		})
		return map[string]any{"item": item}
	}
	fields := selected(fun.Body, name)
	if len(fields) != 1 {
		fail("%s: a function that looks at %v", src.here, fields)
	}
	return map[string]any{"field": fields[0]}
}

// selected returns the fields of a variable that a block looks at.
func selected(block ast.Node, variable string) []string {
	out := []string{}
	ast.Inspect(block, func(node ast.Node) bool {
		if field, ok := node.(*ast.SelectorExpr); ok {
			if on, ok := field.X.(*ast.Ident); ok && on.Name == variable && !slices.Contains(out, field.Sel.Name) {
				out = append(out, field.Sel.Name)
			}
		}
		return true
	})
	return out
}

// register records the kinds of a package that are checked.
func (src *source) register() {
	all, ok := src.checks["RegisterValidations"]
	if !ok {
		return
	}
	ast.Inspect(all, func(node ast.Node) bool {
		made, called := node.(*ast.CallExpr)
		if !called || nameOf(made.Fun) != "AddValidationFunc" {
			return true
		}
		what := src.typeName(made.Args[0].(*ast.CallExpr).Fun)
		ast.Inspect(made.Args[1], func(node ast.Node) bool {
			if clause, ok := node.(*ast.CaseClause); ok {
				for _, path := range clause.List {
					requests[what] = append(requests[what], must(strconv.Unquote(path.(*ast.BasicLit).Value)))
				}
			}
			if inner, ok := node.(*ast.CallExpr); ok && strings.HasPrefix(nameOf(inner.Fun), "Validate_") {
				src.checked(inner.Fun)
			}
			return true
		})
		return false
	})
}

func main() {
	if len(os.Args) != 4 {
		fail("usage: govalidations KUBERNETES API APIMACHINERY")
	}
	for i, module := range []string{"k8s.io/kubernetes", "k8s.io/api", "k8s.io/apimachinery"} {
		roots[module] = os.Args[i+1]
	}
	shared := "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	load(shared, filepath.Join(os.Args[3], "pkg/apis/meta/v1/validation/zz_generated.validations.go"))
	generated := must(filepath.Glob(filepath.Join(os.Args[1], "pkg/apis/*/*/zz_generated.validations.go")))
	all := []*source{}
	for _, file := range generated {
		path := must(filepath.Rel(os.Args[1], filepath.Dir(file)))
		all = append(all, load("k8s.io/kubernetes/"+filepath.ToSlash(path), file))
	}
	for _, src := range all {
		src.register()
	}
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	if err := out.Encode(map[string]any{"requests": requests, "types": types}); err != nil {
		fail("%v", err)
	}
}
