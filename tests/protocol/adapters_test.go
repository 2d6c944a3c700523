// Package protocol tests the locking protocol and the delivery of packs with random
// sequences of actions: locking, dispatch and the worker SDK run against the real
// adapters on a local DynamoDB, and against the simulated ones, with the same actions
// and the same checks. Those check the same properties as the models in docs/models.
//
// adapters_test.go opens both implementations. interceptor_test.go wraps them, so that
// a test can pause a handler before any of its calls, kill it there, lose a reply or
// repeat a write as the AWS SDK does. locks_test.go has executions that lock, conflict,
// reserve, wake up, end and are retried; locks_invariants_test.go has the checks after
// each action. packs_test.go has the engine and the workers of one step run, and
// remote_lease_test.go the workers that use only the HTTP API; packs_invariants_test.go
// has their checks. sweeps_test.go runs overlapping sweeps on real tables, and measures
// what a sweep costs.
//
// A failure prints the shortest sequence found. `make mutations JUDGE=protocol` applies
// the mutants of tests/sim/mutation one by one and runs these tests on each.
package protocol_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsdynamodb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"pgregory.net/rapid"

	"github.com/lockstep-run/lockstep/localstack/embedded/dynamodb"
	"github.com/lockstep-run/lockstep/shared/dynamo"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/worker"
)

// packStore is what the engine and the workers do with pack items.
type packStore interface {
	port.Packs
	worker.Packs
}

// stores is one implementation. Fixtures that share one use different tenants.
type stores struct {
	store port.Store
	locks port.Locks
	packs packStore
}

// adapter is an implementation to test against.
type adapter struct {
	name   string
	checks int // sequences drawn, unless -rapid.checks is given
	open   func() stores
}

var adapters = []adapter{
	{"simulated", 400, func() stores {
		v := sim.New(1).Open()
		return stores{v.Store, v.Locks, v.Packs}
	}},
	{"dynamo", 15, func() stores {
		v := sharedDB.WithMeter(nil)
		return stores{v.Store, v.Locks, v.Packs}
	}},
}

// runOnAdapters checks a property on each implementation.
func runOnAdapters(t *testing.T, property func(t *rapid.T, a adapter)) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			setDefaultFlag(t, "rapid.checks", strconv.Itoa(a.checks))
			setDefaultFlag(t, "rapid.steps", "60")
			rapid.Check(t, func(t *rapid.T) { property(t, a) })
		})
	}
}

// action is one action of a sequence.
type action struct {
	name    string
	enabled bool
	perform func(*rapid.T)
}

// runActions performs enabled actions one after the other, in random order, with a check
// after each.
func runActions(t *rapid.T, check func(), actions func() []action) {
	t.Repeat(map[string]func(*rapid.T){
		"": func(*rapid.T) { check() },
		"next": func(r *rapid.T) {
			all := slices.DeleteFunc(actions(), func(a action) bool { return !a.enabled })
			names := make([]string, len(all))
			for i, a := range all {
				names[i] = a.name
			}
			all[slices.Index(names, rapid.SampledFrom(names).Draw(r, "action"))].perform(r)
		},
	})
}

// draw draws one of the values.
func draw[T any](r *rapid.T, label string, values []T) T {
	return values[rapid.IntRange(0, len(values)-1).Draw(r, label)]
}

// explicitFlags are the flags given on the command line.
var explicitFlags = map[string]bool{}

// setDefaultFlag sets a flag that is not given on the command line.
func setDefaultFlag(t *testing.T, name, value string) {
	if explicitFlags[name] {
		return
	}
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
}

var (
	endpoint string     // the local DynamoDB
	sharedDB *dynamo.DB // tables there that tests share
)

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	flag.Parse()
	flag.Visit(func(f *flag.Flag) { explicitFlags[f.Name] = true })
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	local, err := dynamodb.Start(ctx, dynamodb.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer local.Stop()
	endpoint = local.Endpoint()
	sharedDB = openTables(ctx, "protocol-")
	return m.Run()
}

// openTables creates tables with a prefix of their own.
func openTables(ctx context.Context, prefix string) *dynamo.DB {
	client := awsdynamodb.NewFromConfig(aws.Config{
		Region:       "us-east-1",
		BaseEndpoint: aws.String(endpoint),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "local", SecretAccessKey: "local"}, nil
		}),
	})
	if err := dynamodb.CreateTables(ctx, client, prefix); err != nil {
		panic(err)
	}
	byRole := map[string]string{}
	for _, role := range topology.Tables {
		byRole[role] = dynamodb.TableName(prefix, role)
	}
	return dynamo.Open(client, dynamo.TablesByRole(byRole))
}
