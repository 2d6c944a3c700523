// Package dynamo stores executions, packs, locks, workers and the registry in
// DynamoDB. It implements the ports of the engine and of the worker by method
// set and makes no decisions: every method is one read, or one conditional write
// of a single item.
//
// A tour:
//
//   - dynamo.go: opening the tables, and the view for one unit of work. keys.go:
//     how items and their attributes are named; every key starts with the tenant.
//   - executions.go: executions, the one conditional write that commits them, and
//     the indexes that list them. waiters.go: who is woken when an execution ends.
//     mailbox.go: signals to an execution, and values in items of their own.
//     execution_payload.go: input, scope and event pages, in items of their own.
//   - locks.go: the lock items.
//   - packs.go and done_set.go: packs, their payloads, and which lanes are done.
//   - registry.go, entities.go, schedules.go, idempotency.go: definitions and
//     blocks, entities, schedules, idempotency keys.
//   - workers.go: polling workers. rows.go: tables of tenants and their rows.
//   - page.go and documents.go: paging, and compressed documents.
//
// Package table makes the calls that all of them share; package codec stores
// executions and packs in few bytes.
//
// A write whose reply was lost is repeated and may then fail its own condition.
// Each method recognises its own write by the mark it left: a commit id, a nonce,
// a token. Timers, leases and the times of events, locks, packs and jobs are
// stored to the millisecond.
package dynamo

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/lockstep-run/lockstep/shared/cost"
	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
)

// Tables holds the physical names of the tables.
type Tables struct {
	Executions string
	Jobs       string
	Locks      string
	Registry   string
	Data       string
}

// TablesByRole takes the names from a map by table role (see package topology).
func TablesByRole(byRole map[string]string) Tables {
	return Tables{
		Executions: byRole[topology.TableExecutions],
		Jobs:       byRole[topology.TableJobs],
		Locks:      byRole[topology.TableLocks],
		Registry:   byRole[topology.TableRegistry],
		Data:       byRole[topology.TableData],
	}
}

// DB is the five tables.
type DB struct {
	client *dynamodb.Client
	tables Tables
}

// Open makes a DB without calling DynamoDB. A worker may use only the jobs table
// and leaves the other names empty.
func Open(client *dynamodb.Client, tables Tables) *DB {
	return &DB{client: client, tables: tables}
}

// View gives access to the tables for one unit of work, whose consumption is metered separately.
type View struct {
	Store    *Store
	Locks    *Locks
	Packs    *Packs // implements the engine's and the worker's port
	Registry *Registry
	Workers  *Workers
	Rows     *Rows
}

// WithMeter opens a view that counts into m; a nil m counts nothing. It is cheap.
func (db *DB) WithMeter(m *cost.Meter) View {
	open := func(name, role string) *table.Table { return table.New(db.client, name, role, m) }
	return View{
		Store:    &Store{open(db.tables.Executions, topology.TableExecutions)},
		Locks:    &Locks{open(db.tables.Locks, topology.TableLocks)},
		Packs:    &Packs{open(db.tables.Jobs, topology.TableJobs)},
		Registry: &Registry{open(db.tables.Registry, topology.TableRegistry)},
		Workers:  &Workers{open(db.tables.Jobs, topology.TableJobs)},
		Rows:     &Rows{open(db.tables.Data, topology.TableData)},
	}
}
