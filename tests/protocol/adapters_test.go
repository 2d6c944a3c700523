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

	"github.com/lockstep-run/lockstep/localstack/dynamodb"
	"github.com/lockstep-run/lockstep/shared/dynamo"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/worker"
)

// packItems is both sides of the pack items.
type packItems interface {
	port.Packs
	worker.Packs
}

// items is one implementation. Those that are kept in one place are told apart by
// their tenants.
type items struct {
	store port.Store
	locks port.Locks
	packs packItems
}

// adapter is an implementation that the protocols are played over.
type adapter struct {
	name   string
	checks int // sequences drawn, unless whoever runs the tests says how many
	open   func() items
}

var adapters = []adapter{
	{"simulated", 400, func() items {
		v := sim.New(1).Open()
		return items{v.Store, v.Locks, v.Packs}
	}},
	{"dynamo", 15, func() items {
		v := real.With(nil)
		return items{v.Store, v.Locks, v.Packs}
	}},
}

// play checks a property over each implementation.
func play(t *testing.T, property func(t *rapid.T, a adapter)) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			unsaid(t, "rapid.checks", strconv.Itoa(a.checks))
			unsaid(t, "rapid.steps", "60")
			rapid.Check(t, func(t *rapid.T) { property(t, a) })
		})
	}
}

// move is something that may happen next.
type move struct {
	name string
	may  bool
	do   func(*rapid.T)
}

// repeat lets one thing happen after the other, of those that may, and has each
// judged.
func repeat(t *rapid.T, judge func(), moves func() []move) {
	t.Repeat(map[string]func(*rapid.T){
		"": func(*rapid.T) { judge() },
		"next": func(r *rapid.T) {
			all := slices.DeleteFunc(moves(), func(m move) bool { return !m.may })
			names := make([]string, len(all))
			for i, m := range all {
				names[i] = m.name
			}
			all[slices.Index(names, rapid.SampledFrom(names).Draw(r, "what"))].do(r)
		},
	})
}

// pick draws one of some.
func pick[T any](r *rapid.T, what string, of []T) T {
	return of[rapid.IntRange(0, len(of)-1).Draw(r, what)]
}

// said are the flags that whoever runs the tests has set.
var said = map[string]bool{}

// unsaid sets a flag that nobody has set.
func unsaid(t *testing.T, name, value string) {
	if said[name] {
		return
	}
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
}

// real is the tables of the one local DynamoDB that all tests share.
var real *dynamo.DB

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	flag.Visit(func(f *flag.Flag) { said[f.Name] = true })
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	local, err := dynamodb.Start(ctx, dynamodb.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer local.Stop()
	endpoint = local.Endpoint()
	real = openTables(ctx, "protocol-")
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
	return dynamo.Open(client, dynamo.TablesOf(byRole))
}
