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

// importRule forbids a room, with everything below it, to import some paths, with
// everything below them. Tests of a room are not bound.
type importRule struct {
	pkg       string
	forbidden []string
	reason    string
}

// Paths that several bans name.
var (
	awsPaths    = []string{"github.com/aws"}
	impurePaths = []string{"context", "math/rand", "math/rand/v2", "crypto/rand", "log", "log/slog", "os", "net", "net/http", "io", "time"}
)

// importRules is the floors of the house: arrows point down only.
var importRules = []importRule{
	{"statemachines", append(impurePaths, module), "the law depends on nothing but the language: it is true at any time"},
	{"shared/topology", []string{module, "github.com", "golang.org"}, "infrastructure and code both read it, so it may pull in neither"},
	{"shared/workflow", append([]string{"context", module + "shared"}, awsPaths...), "nouns are passed around by everybody and know nobody"},
	{"shared/lifecycle", append([]string{"context", "math/rand", "math/rand/v2", "crypto/rand", "log", "log/slog", "os", "net", "io",
		module + "shared/engine", module + "shared/expr", module + "shared/definition", module + "shared/dynamo", module + "shared/sqs"}, awsPaths...),
		"the decider is pure: a decision can be repeated from its inputs"},
	{"shared/expr", append([]string{"context", module + "shared/engine", module + "shared/lifecycle", module + "shared/definition"}, awsPaths...), "expressions know nothing of the engine"},
	{"shared/definition", append([]string{"context", "net", module + "shared/engine", module + "shared/lifecycle"}, awsPaths...), "a definition is read without asking anybody"},
	{"shared/worker", append([]string{module + "shared/engine", module + "shared/lifecycle", module + "shared/dynamo", module + "shared/sqs"}, awsPaths...),
		"the SDK is public and small: it says what it needs in an interface"},
	{"shared/engine", append([]string{module + "shared/dynamo", module + "shared/sqs", module + "shared/api", module + "tests/sim", "net/http"}, awsPaths...),
		"the engine meets its adapters by method set, and does not speak HTTP"},
	{"shared/client", []string{module + "shared/engine", module + "shared/lifecycle", "github.com/aws"}, "a client needs the interface, not the engine"},
	{"shared/inventory", append([]string{"context", "net", module + "shared/engine", module + "shared/catalog"}, awsPaths...), "what an entity may be is known without asking anybody"},
	{"shared/catalog", append([]string{module + "shared/engine", module + "shared/dynamo"}, awsPaths...), "the catalog says what it needs in an interface"},
	{"shared/workerapi", append([]string{module + "shared/dynamo", module + "shared/sqs", module + "shared/api", module + "tests/sim"}, awsPaths...),
		"it keeps the workers' protocol over whatever tables and queues it is given"},
	{"shared/dynamo", []string{module + "shared/engine", module + "shared/lifecycle", module + "shared/sqs", module + "shared/worker", "github.com/aws/aws-lambda-go"},
		"an adapter stores and decides nothing; adapters do not know each other"},
	{"shared/sqs", []string{module + "shared/engine", module + "shared/lifecycle", module + "shared/dynamo", "github.com/aws/aws-lambda-go"},
		"an adapter sends and decides nothing; adapters do not know each other"},
	{"tests/sim", append([]string{module + "shared/dynamo", module + "shared/sqs"}, awsPaths...), "the simulation is in memory"},
	{"cmd/lockstep/doctor/aws", []string{module + "shared/engine", module + "shared/lifecycle", module + "shared/dynamo", module + "shared/sqs", module + "cmd"}, "it says how a stack stands, and decides nothing"},
	{"shared/monitor", append([]string{module + "shared/engine", module + "shared/dynamo"}, awsPaths...), "the page reads through HTTP like any client"},
	{"infra", []string{module + "shared/workflow", module + "shared/engine", module + "shared/dynamo", module + "shared/api", module + "shared/lifecycle", module + "statemachines"},
		"infrastructure and code agree on topology alone"},
	{"functions", []string{"github.com/aws/aws-sdk-go-v2", module + "shared/dynamo", module + "localstack"}, "a function takes an event in and makes one call out"},
	{"cmd/lockstep", []string{"github.com/aws", module + "shared/engine", module + "shared/dynamo"}, "the command speaks HTTP; only dev starts anything, through the local stack"},
	{"localstack", []string{module + "shared/engine", module + "shared/lifecycle", module + "shared/dynamo", module + "functions", module + "infra"},
		"the local stack runs the real binaries; it does not link them"},
}

// exceptions are single packages that a ban does not bind, each with its reason.
var exceptions = map[string]string{
	"shared/api/lambdahttp":           "the Lambda adapter of the API lives beside it and is imported by the function alone",
	"shared/client/auth":              "it signs requests with the SDK's credentials, for callers that ask for it",
	"cmd/lockstep/doctor/aws":         "it asks AWS how a stack stands; a rule of its own says what it may not import",
	"statemachines/internal/generate": "a program that writes files",
	"shared/config/internal/generate": "a program that writes files",
}

func TestImports_FollowRules(t *testing.T) {
	for _, b := range importRules {
		if _, err := os.Stat(filepath.Join(repoRoot, b.pkg)); err != nil {
			t.Errorf("the law bans imports of a room that does not exist: %v", err)
			continue
		}
		for _, p := range b.forbidden {
			if rest, ours := strings.CutPrefix(p, module); ours && rest != "" {
				if _, err := os.Stat(filepath.Join(repoRoot, rest)); err != nil {
					t.Errorf("%s may not import %s, which does not exist", b.pkg, p)
				}
			}
		}
		for _, file := range goFiles(t, b.pkg) {
			if strings.HasSuffix(file, "_test.go") || exceptions[filepath.ToSlash(filepath.Dir(file))] != "" {
				continue
			}
			for _, path := range importsOf(t, file) {
				if slices.ContainsFunc(b.forbidden, func(p string) bool { return isWithin(path, p) && !isWithin(path, module+b.pkg) }) {
					t.Errorf("%s imports %s: %s", file, path, b.reason)
				}
			}
		}
	}
}

// isWithin reports whether an import path is p or below it. The standard library's
// packages are named exactly.
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
