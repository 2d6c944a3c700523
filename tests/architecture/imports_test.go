package architecture

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/lockstep-run/lockstep/"

// importRule forbids a package, and those below it, to import some paths, and those below
// them. It does not apply to tests.
type importRule struct {
	pkg       string
	forbidden []string
	reason    string
}

// Paths in several rules.
var (
	awsPaths    = []string{"github.com/aws"}
	impurePaths = []string{"context", "math/rand", "math/rand/v2", "crypto/rand", "log", "log/slog", "os", "net", "net/http", "io", "time"}
)

// importRules keep the layers apart: a package imports only from its own layer and below.
var importRules = []importRule{
	{"statemachines", append(impurePaths, module), "the transition tables depend only on the language"},
	{"shared/topology", []string{module, "github.com", "golang.org"}, "infrastructure and code both import it, so it imports neither"},
	{"shared/workflow", append([]string{"context", module + "shared"}, awsPaths...), "all packages use these types, so they depend on none"},
	{"shared/lifecycle", append([]string{"context", "math/rand", "math/rand/v2", "crypto/rand", "log", "log/slog", "os", "net", "io",
		module + "shared/engine", module + "shared/expr", module + "shared/definition", module + "shared/dynamo", module + "shared/sqs"}, awsPaths...),
		"the decider is a pure function"},
	{"shared/expr", append([]string{"context", module + "shared/engine", module + "shared/lifecycle", module + "shared/definition"}, awsPaths...), "expressions do not depend on the engine"},
	{"shared/definition", append([]string{"context", "net", module + "shared/engine", module + "shared/lifecycle"}, awsPaths...), "a definition is read without other sources"},
	{"shared/worker", append([]string{module + "shared/engine", module + "shared/lifecycle", module + "shared/dynamo", module + "shared/sqs"}, awsPaths...),
		"the SDK is public and small: it declares what it needs as interfaces"},
	{"shared/engine", append([]string{module + "shared/dynamo", module + "shared/sqs", module + "shared/api", module + "shared/sim", "net/http"}, awsPaths...),
		"the engine uses its adapters only through interfaces, and does not use HTTP"},
	{"shared/workflowtest", append([]string{module + "shared/dynamo", module + "shared/sqs", module + "shared/api", module + "shared/boot", "net/http"}, awsPaths...), "tests are played in memory"},
	{"shared/client", []string{module + "shared/engine", module + "shared/lifecycle", "github.com/aws"}, "a client needs the API, not the engine"},
	{"shared/inventory", append([]string{"context", "net", module + "shared/engine", module + "shared/catalog"}, awsPaths...), "entities are validated without other sources"},
	{"shared/catalog", append([]string{module + "shared/engine", module + "shared/dynamo"}, awsPaths...), "the catalog declares what it needs as interfaces"},
	{"shared/workerapi", append([]string{module + "shared/dynamo", module + "shared/sqs", module + "shared/api", module + "shared/sim"}, awsPaths...),
		"it declares the tables and queues that it needs as interfaces"},
	{"shared/dynamo", []string{module + "shared/engine", module + "shared/lifecycle", module + "shared/sqs", module + "shared/worker", "github.com/aws/aws-lambda-go"},
		"an adapter only stores, and does not depend on other adapters"},
	{"shared/sqs", []string{module + "shared/engine", module + "shared/lifecycle", module + "shared/dynamo", "github.com/aws/aws-lambda-go"},
		"an adapter only sends, and does not depend on other adapters"},
	{"tests/sim/oracle", append([]string{module + "shared/engine", module + "shared/lifecycle", module + "shared/expr", module + "shared/definition", module + "shared/worker", module + "tests/sim/harness"}, awsPaths...),
		"it judges these, so it calls none of them"},
	{"tests/sim", append([]string{module + "shared/dynamo", module + "shared/sqs"}, awsPaths...), "the simulation is in memory"},
	{"shared/sim", append([]string{module + "shared/engine", module + "shared/worker", module + "shared/dynamo", module + "shared/sqs"}, awsPaths...), "it stands below the engine and the worker, in memory"},
	{"cmd/lockstep/doctor/aws", []string{module + "shared/engine", module + "shared/lifecycle", module + "shared/dynamo", module + "shared/sqs", module + "cmd"}, "it only reports the state of a stack"},
	{"shared/monitor", append([]string{module + "shared/engine", module + "shared/dynamo"}, awsPaths...), "the page uses the HTTP API like any client"},
	{"infra", []string{module + "shared/workflow", module + "shared/engine", module + "shared/dynamo", module + "shared/api", module + "shared/lifecycle", module + "statemachines"},
		"infrastructure and code share only topology"},
	{"functions", []string{"github.com/aws/aws-sdk-go-v2", module + "shared/dynamo", module + "localstack"}, "a function only turns an event into a call"},
	{"cmd/lockstep", []string{"github.com/aws", module + "shared/engine", module + "shared/dynamo"}, "the command uses the HTTP API; only dev starts programs, through the local stack"},
	{"localstack", []string{module + "shared/engine", module + "shared/lifecycle", module + "shared/dynamo", module + "functions", module + "infra"},
		"the local stack runs the real programs; it does not link them"},
}

// exceptions are packages that the rules do not apply to, each with its reason.
var exceptions = map[string]string{
	"shared/api/lambdahttp":           "the Lambda adapter of the API is imported only by the function",
	"shared/client/auth":              "it signs requests with the AWS SDK's credentials, for callers that want that",
	"cmd/lockstep/doctor/aws":         "it reads the state of a stack from AWS, and has a rule of its own",
	"statemachines/internal/generate": "a program that writes files",
	"shared/config/internal/generate": "a program that writes files",
}

// allowedImports are the imports of single files that a rule otherwise forbids.
var allowedImports = map[string][]string{
	"tests/sim/harness/sizes.go": {module + "shared/dynamo/codec", module + "shared/dynamo/table"}, // it measures items as they are stored
}

// No package imports what its rules forbid, and all paths of the rules exist.
func TestImports_FollowRules(t *testing.T) {
	for _, r := range importRules {
		if _, err := os.Stat(filepath.Join(repoRoot, r.pkg)); err != nil {
			t.Errorf("a rule for a package that does not exist: %v", err)
			continue
		}
		for _, p := range r.forbidden {
			if rest, ours := strings.CutPrefix(p, module); ours && rest != "" {
				if _, err := os.Stat(filepath.Join(repoRoot, rest)); err != nil {
					t.Errorf("the rule for %s forbids %s, which does not exist", r.pkg, p)
				}
			}
		}
		for _, file := range goFiles(t, r.pkg) {
			if strings.HasSuffix(file, "_test.go") || exceptions[filepath.ToSlash(filepath.Dir(file))] != "" {
				continue
			}
			for _, path := range importsOf(t, file) {
				if slices.Contains(allowedImports[file], path) {
					continue
				}
				if slices.ContainsFunc(r.forbidden, func(p string) bool { return isWithin(path, p) && !isWithin(path, module+r.pkg) }) {
					t.Errorf("%s imports %s: %s", file, path, r.reason)
				}
			}
		}
	}
}

// isWithin reports whether an import path is p or below it. Packages of the standard
// library match only exactly.
func isWithin(path, p string) bool {
	if path == p {
		return true
	}
	if !strings.Contains(p, ".") {
		return false
	}
	return strings.HasPrefix(path, strings.TrimSuffix(p, "/")+"/")
}

func importsOf(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(repoRoot, file), nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, i := range parsed.Imports {
		paths = append(paths, strings.Trim(i.Path.Value, `"`))
	}
	return paths
}
