package ports_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	awsdynamodb "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/lockstep-run/lockstep/localstack/embedded/dynamodb"
	"github.com/lockstep-run/lockstep/shared/cost"
	"github.com/lockstep-run/lockstep/shared/dynamo"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/tests/conformance/ports"
)

var (
	_ port.Store    = (*dynamo.Store)(nil)
	_ port.Locks    = (*dynamo.Locks)(nil)
	_ port.Packs    = (*dynamo.Packs)(nil)
	_ worker.Packs  = (*dynamo.Packs)(nil)
	_ port.Registry = dynamo.View{}.Registry
	_ port.Workers  = dynamo.View{}.Workers
	_ port.Meter    = (*cost.Meter)(nil)
	_ worker.Meter  = (*cost.Meter)(nil)
)

// All tests share one local DynamoDB and its tables.
var (
	tables        dynamo.Tables
	dynamoProcess *dynamodb.Process
)

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var err error
	if dynamoProcess, err = dynamodb.Start(ctx, dynamodb.Options{}); err == nil {
		defer dynamoProcess.Stop()
		err = dynamodb.CreateTables(ctx, awsdynamodb.NewFromConfig(awsConfig(dynamoProcess.Endpoint())), "kit-")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	byRole := map[string]string{}
	for _, role := range topology.Tables {
		byRole[role] = dynamodb.TableName("kit-", role)
	}
	tables = dynamo.TablesByRole(byRole)
	return m.Run()
}

func openClient(f *faultInjector) *awsdynamodb.Client {
	return awsdynamodb.NewFromConfig(awsConfig(dynamoProcess.Endpoint()), f.options)
}

func openView(f *faultInjector, m *cost.Meter) dynamo.View {
	return dynamo.Open(openClient(f), tables).WithMeter(m)
}

func openDynamo(*testing.T) ports.Implementation {
	f := &faultInjector{}
	v := openView(f, new(cost.Meter))
	return ports.Implementation{
		Store: v.Store, Locks: v.Locks, Packs: v.Packs, Claims: v.Packs, Registry: v.Registry, Schedules: v.Registry, Workers: v.Workers, Rows: v.Rows,
		LoseReply: f.loseReply,
	}
}

func TestDynamo_Store(t *testing.T)       { t.Parallel(); ports.Store(t, openDynamo) }
func TestDynamo_Rows(t *testing.T)        { t.Parallel(); ports.Rows(t, openDynamo) }
func TestDynamo_Signals(t *testing.T)     { t.Parallel(); ports.Signals(t, openDynamo) }
func TestDynamo_Payloads(t *testing.T)    { t.Parallel(); ports.Payloads(t, openDynamo) }
func TestDynamo_Locks(t *testing.T)       { t.Parallel(); ports.Locks(t, openDynamo) }
func TestDynamo_SharedLocks(t *testing.T) { t.Parallel(); ports.SharedLocks(t, openDynamo) }
func TestDynamo_Packs(t *testing.T)       { t.Parallel(); ports.Packs(t, openDynamo) }
func TestDynamo_Claims(t *testing.T)      { t.Parallel(); ports.Claims(t, openDynamo) }
func TestDynamo_Polls(t *testing.T)       { t.Parallel(); ports.Polls(t, openDynamo) }
func TestDynamo_Registry(t *testing.T)    { t.Parallel(); ports.Registry(t, openDynamo) }
func TestDynamo_Schedules(t *testing.T)   { t.Parallel(); ports.Schedules(t, openDynamo) }
func TestDynamo_Entities(t *testing.T)    { t.Parallel(); ports.Entities(t, openDynamo) }
func TestDynamo_Workers(t *testing.T)     { t.Parallel(); ports.Workers(t, openDynamo) }
