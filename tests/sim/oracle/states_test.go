package oracle_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/oracle"
)

// The rules of the simulation know every state, and agree with the product about it.
func TestStates_AreJudgedAsByTheProduct(t *testing.T) {
	for _, s := range append(sm.ExecutionStates(), "", "A_STATE_OF_A_NEWER_RELEASE") {
		if oracle.HoldsLocks(s) != sm.HoldsLocks(s) || oracle.Terminal(s) != sm.Terminal(s) || oracle.TerminalEvent(s) != sm.TerminalEvent(s) || oracle.Acknowledged(s) != sm.Acknowledged(s) {
			t.Errorf("%q: the simulation and the product judge it differently", s)
		}
		for _, person := range []*workflow.BlockedBy{nil, {NeedsPerson: true}} {
			x := &workflow.Execution{State: s, BlockedBy: person}
			if known := slices.Contains(sm.ExecutionStates(), s) || s == ""; known && oracle.OwnerOf(x).Reserves() != x.OwnerStatus().Reserves() {
				t.Errorf("%q, blocked by %+v: the simulation and the product judge its reservations differently", s, person)
			}
		}
	}
}

// judged are methods and functions of the product that decide what the judges judge.
var judged = []string{"Older", "Reserves", "Executed", "OwnerStatus", "HolderOf", "Holds", "HoldsEntity", "NeedsPerson", "Age", "Final", "Terminal", "TerminalEvent", "HoldsLocks", "Acknowledged", "StatusOf", "IsOver", "HasChanges", "NeverBegins"}

// The judges call none of the rules that they judge: only those of package oracle, and their own.
func TestJudges_CallNoneOfTheProduct(t *testing.T) {
	for _, pattern := range []string{"*.go", "../invariant/*.go", "../harness/checks.go", "../harness/family.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			eachCallOf(t, file, func(at token.Position, of *ast.SelectorExpr) {
				on, named := of.X.(*ast.Ident)
				if !slices.Contains(judged, of.Sel.Name) || named && on.Name == "oracle" || of.Sel.Name == "Reserves" && isOwner(of.X) {
					return
				}
				t.Errorf("%s calls %s of what it judges", at, of.Sel.Name)
			})
		}
	}
}

// The file of the rules calls nothing of the product at all, whatever it does.
func TestStates_CallNothingOfTheProduct(t *testing.T) {
	eachCallOf(t, "states.go", func(at token.Position, of *ast.SelectorExpr) {
		if on, named := of.X.(*ast.Ident); named && on.Name == "slices" || of.Sel.Name == "IsZero" {
			return
		}
		t.Errorf("%s calls %s", at, of.Sel.Name)
	})
}

// eachCallOf calls visit for each call of a method, or of a function of another package, in a file.
func eachCallOf(t *testing.T, file string, visit func(at token.Position, of *ast.SelectorExpr)) {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if of, ok := call.Fun.(*ast.SelectorExpr); ok {
				visit(set.Position(call.Pos()), of)
			}
		}
		return true
	})
}

// isOwner reports whether an expression is one of those that give a [oracle.Owner].
func isOwner(x ast.Expr) bool {
	if on, ok := x.(*ast.Ident); ok {
		return on.Name == "status"
	}
	call, ok := x.(*ast.CallExpr)
	if !ok {
		return false
	}
	of, ok := call.Fun.(*ast.SelectorExpr)
	return ok && (of.Sel.Name == "ownerStatus" || of.Sel.Name == "OwnerOf")
}
