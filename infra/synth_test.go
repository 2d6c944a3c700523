package infra

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/shared/topology"
)

func TestMain(m *testing.M) {
	Quiet()
	code := m.Run()
	jsii.Close()
	os.Exit(code)
}

// template is a synthesised template, as far as the tests look at it.
type template struct {
	Resources map[string]*resource
	Outputs   map[string]struct{ Value any }
}

type resource struct {
	ID             string `json:"-"`
	Type           string
	Properties     map[string]any
	DependsOn      any
	DeletionPolicy string
}

// The stacks that the tests look at. They are made once, in one app: most of what
// a synthesis takes is the start of the kernel.
var stacks = sync.OnceValue(func() map[string]*template {
	dir, err := os.MkdirTemp("", "lockstep-infra")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	functions := filepath.Join(dir, "functions")
	if err := dummies(functions); err != nil {
		panic(err)
	}
	app := awscdk.NewApp(&awscdk.AppProps{AnalyticsReporting: jsii.Bool(false), Outdir: jsii.String(filepath.Join(dir, "out"))})
	prod := awscdk.NewStack(app, jsii.String("prod"), nil)
	NewEngine(prod, "Engine", &EngineProps{FunctionsDir: functions, Version: "1.2.3"})

	dev := awscdk.NewStack(app, jsii.String("dev"), nil)
	NewEngine(dev, "Engine", &EngineProps{
		Stage: "dev", FunctionsDir: functions, Architecture: archX86, LogLevel: "debug",
		Config: "job: {lease: 90s}", AllowHosts: []string{"a.example", "b.example:8443"},
		Concurrency:       map[string]int{topology.FunctionWorker: 7},
		RequestsPerSecond: 3, Burst: 4, CORSOrigins: []string{"https://ops.example"}, Tracing: true,
		AlarmTopic: awssns.NewTopic(dev, jsii.String("Pager"), nil),
		Thresholds: Thresholds{LookAge: 11, PackAge: 12, Errors: 13, Throttles: 14},
		RunbookURL: "https://wiki.example/runbooks",
	})

	pair := awscdk.NewStack(app, jsii.String("pair"), nil)
	for _, id := range []string{"Blue", "Green"} {
		NewEngine(pair, id, &EngineProps{Stage: "dev", FunctionsDir: functions})
	}

	made := map[string]*template{}
	for name, stack := range map[string]awscdk.Stack{"prod": prod, "dev": dev, "pair": pair} {
		// Nothing else of CDK's assertions is used: one that fails ends the process.
		text, err := json.Marshal(*assertions.Template_FromStack(stack, nil).ToJSON())
		if err != nil {
			panic(err)
		}
		t := &template{}
		if err := json.Unmarshal(text, t); err != nil {
			panic(err)
		}
		for id, r := range t.Resources {
			r.ID = id
		}
		made[name] = t
	}
	return made
})

// dummies stands in for the built functions.
func dummies(dir string) error {
	for _, name := range topology.Functions {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name, "bootstrap"), []byte(name), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// each runs a test on every stack.
func each(t *testing.T, test func(*testing.T, *template)) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(stacks())) {
		t.Run(name, func(t *testing.T) { test(t, stacks()[name]) })
	}
}

// all returns the resources of a type in order of their id. A type of which there
// is none makes a test fail, for otherwise it would hold of nothing.
func (x *template) all(t *testing.T, kind string) []*resource {
	t.Helper()
	var found []*resource
	for _, id := range slices.Sorted(maps.Keys(x.Resources)) {
		if x.Resources[id].Type == kind {
			found = append(found, x.Resources[id])
		}
	}
	if len(found) == 0 {
		t.Fatalf("no resource of type %s", kind)
	}
	return found
}

// at follows property names down from a resource; nil if one is missing.
func (r *resource) at(path ...string) any { return at(r.Properties, path...) }

func at(v any, path ...string) any {
	for _, name := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

// text renders a value with its references, ${Id} and ${Id.Attribute}.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = text(v[i])
		}
		return strings.Join(parts, " ")
	case map[string]any:
		switch {
		case v["Ref"] != nil:
			return "${" + text(v["Ref"]) + "}"
		case v["Fn::GetAtt"] != nil:
			pair := v["Fn::GetAtt"].([]any)
			return "${" + text(pair[0]) + "." + text(pair[1]) + "}"
		case v["Fn::Join"] != nil:
			join := v["Fn::Join"].([]any)
			var b strings.Builder
			for i, part := range join[1].([]any) {
				if i > 0 {
					b.WriteString(text(join[0]))
				}
				b.WriteString(text(part))
			}
			return b.String()
		}
		parts := make([]string, 0, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, key+"="+text(v[key]))
		}
		return strings.Join(parts, ",")
	default:
		return fmt.Sprint(v)
	}
}

// list is a value that CloudFormation may also write without its list.
func list(v any) []any {
	if l, ok := v.([]any); ok {
		return l
	}
	if v == nil {
		return nil
	}
	return []any{v}
}

var reference = regexp.MustCompile(`\$\{([A-Za-z0-9]+)(?:\.[A-Za-z.]+)?\}`)

// refers returns the resource to which a value is a reference, or whose attribute
// it begins with.
func (x *template) refers(t *testing.T, v any) *resource {
	t.Helper()
	m := reference.FindStringSubmatch(text(v))
	if m == nil || x.Resources[m[1]] == nil {
		t.Fatalf("%q refers to no resource", text(v))
	}
	return x.Resources[m[1]]
}

var hash = regexp.MustCompile(`([A-Za-z0-9])[0-9A-F]{8}\b`)

// plain takes the hashes out of ids.
func plain(s string) string { return hash.ReplaceAllString(s, "$1") }

// is whether a resource was made under the id, in whichever engine.
func (r *resource) is(id string) bool {
	for _, engine := range []string{"Engine", "Blue", "Green"} {
		if plain(r.ID) == engine+id {
			return true
		}
	}
	return false
}

// one is the engine's resource of that id; the pair has two, the first is taken.
func (x *template) one(t *testing.T, id string) *resource {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(x.Resources)) {
		if x.Resources[key].is(id) {
			return x.Resources[key]
		}
	}
	t.Fatalf("no resource %s", id)
	return nil
}

// env is a function's environment, rendered.
func (r *resource) env() map[string]string {
	vars := map[string]string{}
	if m, ok := r.at("Environment", "Variables").(map[string]any); ok {
		for k, v := range m {
			vars[k] = text(v)
		}
	}
	return vars
}

// statement is one of a policy.
type statement struct {
	sid, effect        string
	actions, resources []string
	principal          string
	condition          any
}

func statements(document any) []statement {
	var found []statement
	for _, raw := range list(at(document, "Statement")) {
		s := statement{
			sid: text(at(raw, "Sid")), effect: text(at(raw, "Effect")),
			principal: text(at(raw, "Principal")), condition: at(raw, "Condition"),
		}
		for _, a := range list(at(raw, "Action")) {
			s.actions = append(s.actions, text(a))
		}
		for _, r := range list(at(raw, "Resource")) {
			s.resources = append(s.resources, text(r))
		}
		found = append(found, s)
	}
	return found
}

// policy is everything that a role's policies say.
func (x *template) policy(t *testing.T, role *resource) []statement {
	t.Helper()
	var found []statement
	for _, p := range list(role.at("Policies")) {
		found = append(found, statements(at(p, "PolicyDocument"))...)
	}
	for _, p := range x.all(t, "AWS::IAM::Policy") {
		for _, r := range list(p.at("Roles")) {
			if x.refers(t, r) == role {
				found = append(found, statements(p.at("PolicyDocument"))...)
			}
		}
	}
	return found
}
