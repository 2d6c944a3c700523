package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// journeyLimits are how many files and packages a reader may pass on each journey of
// docs/ARCHITECTURE.md, by its heading.
var journeyLimits = map[string]struct{ files, packages int }{
	"From `POST /workflow-execution` to the first queue message": {45, 18},
	"From a worker's finish to the committed step":               {32, 14},
	"From a cancel to the first rollback message":                {42, 18},
}

// journeyStepRE matches one step of a journey: a numbered line that begins with a function.
var journeyStepRE = regexp.MustCompile("^\\d+\\. `([a-z]+(?:\\.[A-Za-z]+){1,2})`")

// TestArchitecture_JourneysNameExistingFunctions checks that each journey names functions that
// exist, and that a reader does not pass too many files and packages on it.
func TestArchitecture_JourneysNameExistingFunctions(t *testing.T) {
	functions := listFunctions(t)
	type passed struct{ files, packages map[string]bool }
	journeys := map[string]*passed{}
	var now *passed
	for line := range strings.Lines(string(readFile(t, "docs/ARCHITECTURE.md"))) {
		if heading, ok := strings.CutPrefix(strings.TrimSpace(line), "### "); ok {
			now = &passed{map[string]bool{}, map[string]bool{}}
			journeys[heading] = now
			continue
		}
		step := journeyStepRE.FindStringSubmatch(line)
		if step == nil || now == nil {
			continue
		}
		file, ok := functions[step[1]]
		if !ok {
			t.Errorf("there is no function %s", step[1])
			continue
		}
		now.files[file], now.packages[filepath.Dir(file)] = true, true
	}
	for heading, limit := range journeyLimits {
		p := journeys[heading]
		if p == nil || len(p.files) == 0 {
			t.Errorf("docs/ARCHITECTURE.md has no journey %q", heading)
			continue
		}
		t.Logf("%s: %d files in %d packages", heading, len(p.files), len(p.packages))
		if len(p.files) > limit.files || len(p.packages) > limit.packages {
			t.Errorf("%s passes %d files in %d packages, at most %d and %d", heading, len(p.files), len(p.packages), limit.files, limit.packages)
		}
	}
}

// listFunctions maps each function of the product, written package.Function or
// package.Type.Method, to its file. A main package goes by the name of its folder.
func listFunctions(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, below := range []string{"functions", "shared", "statemachines"} {
		for _, file := range goFiles(t, below) {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(repoRoot, file), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			pkg := parsed.Name.Name
			if pkg == "main" {
				pkg = filepath.Base(filepath.Dir(file))
			}
			for _, decl := range parsed.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok {
					all[pkg+"."+receiverPrefix(f)+f.Name.Name] = file
				}
			}
		}
	}
	return all
}

// receiverPrefix is "Type." of a method, and "" of a function.
func receiverPrefix(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	t := f.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if index, ok := t.(*ast.IndexExpr); ok {
		t = index.X
	}
	if name, ok := t.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}
