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
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/tests/sim"
)

// packStore is both sides of the pack items.
type packStore interface {
	port.Packs
	worker.Packs
}

// stores is one implementation. Those that are kept in one place are told apart by
// their tenants.
type stores struct {
	store port.Store
	locks port.Locks
	packs packStore
}

// adapter is an implementation that the protocols are played over.
type adapter struct {
	name   string
	checks int // sequences drawn, unless whoever runs the tests says how many
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

// runOnAdapters checks a property over each implementation.
func runOnAdapters(t *testing.T, property func(t *rapid.T, a adapter)) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			setDefaultFlag(t, "rapid.checks", strconv.Itoa(a.checks))
			setDefaultFlag(t, "rapid.steps", "60")
			rapid.Check(t, func(t *rapid.T) { property(t, a) })
		})
	}
}

// action is something that may happen next.
type action struct {
	name    string
	enabled bool
	perform func(*rapid.T)
}

// runActions lets one thing happen after the other, of those that may, and has each
// judged.
func runActions(t *rapid.T, judge func(), moves func() []action) {
	t.Repeat(map[string]func(*rapid.T){
		"": func(*rapid.T) { judge() },
		"next": func(r *rapid.T) {
			all := slices.DeleteFunc(moves(), func(m action) bool { return !m.enabled })
			names := make([]string, len(all))
			for i, m := range all {
				names[i] = m.name
			}
			all[slices.Index(names, rapid.SampledFrom(names).Draw(r, "what"))].perform(r)
		},
	})
}

// draw draws one of some.
func draw[T any](r *rapid.T, what string, of []T) T {
	return of[rapid.IntRange(0, len(of)-1).Draw(r, what)]
}

// explicitFlags are the flags that whoever runs the tests has set.
var explicitFlags = map[string]bool{}

// setDefaultFlag sets a flag that nobody has set.
func setDefaultFlag(t *testing.T, name, value string) {
	if explicitFlags[name] {
		return
	}
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
}

// sharedDB is the tables of the one local DynamoDB that all tests share.
var sharedDB *dynamo.DB

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
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

var endpoint string

// openTables makes tables of their own whose names begin so.
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
