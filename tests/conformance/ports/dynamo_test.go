package ports_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	awsdynamodb "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/lockstep-run/lockstep/localstack/dynamodb"
	"github.com/lockstep-run/lockstep/shared/cost"
	"github.com/lockstep-run/lockstep/shared/dynamo"
	"github.com/lockstep-run/lockstep/shared/dynamo/packs"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/tests/conformance/ports"
)

var (
	_ port.Store    = (*dynamo.Store)(nil)
	_ port.Locks    = (*dynamo.Locks)(nil)
	_ port.Packs    = (*packs.Packs)(nil)
	_ worker.Packs  = (*packs.Packs)(nil)
	_ port.Registry = dynamo.View{}.Registry
	_ port.Workers  = dynamo.View{}.Workers
	_ port.Meter    = (*cost.Meter)(nil)
	_ worker.Meter  = (*cost.Meter)(nil)
)

// tables are those of the one local DynamoDB that all tests share.
var (
	tables dynamo.Tables
	local  *dynamodb.Process
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var err error
	if local, err = dynamodb.Start(ctx, dynamodb.Options{}); err == nil {
		defer local.Stop()
		err = dynamodb.CreateTables(ctx, awsdynamodb.NewFromConfig(endpoint(local.Endpoint())), "kit-")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	byRole := map[string]string{}
	for _, role := range topology.Tables {
		byRole[role] = dynamodb.TableName("kit-", role)
	}
	tables = dynamo.TablesOf(byRole)
	return m.Run()
}

func openClient(f *faults) *awsdynamodb.Client {
	return awsdynamodb.NewFromConfig(endpoint(local.Endpoint()), f.options)
}

func openView(f *faults, m *cost.Meter) dynamo.View {
	return dynamo.Open(openClient(f), tables).With(m)
}

func openDynamo(*testing.T) ports.World {
	f := &faults{}
	v := openView(f, new(cost.Meter))
	return ports.World{
		Store: v.Store, Locks: v.Locks, Packs: v.Packs, Claims: v.Packs, Registry: v.Registry, Schedules: v.Registry, Workers: v.Workers,
		LoseReply: f.loseReply,
	}
}

func TestDynamoStore(t *testing.T)       { t.Parallel(); ports.Store(t, openDynamo) }
func TestDynamoBeside(t *testing.T)      { t.Parallel(); ports.Beside(t, openDynamo) }
func TestDynamoLocks(t *testing.T)       { t.Parallel(); ports.Locks(t, openDynamo) }
func TestDynamoSharedLocks(t *testing.T) { t.Parallel(); ports.SharedLocks(t, openDynamo) }
func TestDynamoPacks(t *testing.T)       { t.Parallel(); ports.Packs(t, openDynamo) }
func TestDynamoClaims(t *testing.T)      { t.Parallel(); ports.Claims(t, openDynamo) }
func TestDynamoRegistry(t *testing.T)    { t.Parallel(); ports.Registry(t, openDynamo) }
func TestDynamoSchedules(t *testing.T)   { t.Parallel(); ports.Schedules(t, openDynamo) }
func TestDynamoEntities(t *testing.T)    { t.Parallel(); ports.Entities(t, openDynamo) }
func TestDynamoWorkers(t *testing.T)     { t.Parallel(); ports.Workers(t, openDynamo) }
