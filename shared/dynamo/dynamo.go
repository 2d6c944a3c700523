package dynamo

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/lockstep-run/lockstep/shared/cost"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
)

// Tables are the physical names of the tables.
type Tables struct {
	Executions string
	Jobs       string
	Locks      string
	Registry   string
}

// TablesByRole picks the names out of a map by table role, as topology names them.
func TablesByRole(byRole map[string]string) Tables {
	return Tables{
		Executions: byRole[topology.TableExecutions],
		Jobs:       byRole[topology.TableJobs],
		Locks:      byRole[topology.TableLocks],
		Registry:   byRole[topology.TableRegistry],
	}
}

// DB is the four tables.
type DB struct {
	client *dynamodb.Client
	tables Tables
}

// Open makes a DB. It calls nothing. A worker, which has no right on any table
// but the jobs, leaves the other names empty.
func Open(client *dynamodb.Client, tables Tables) *DB {
	return &DB{client: client, tables: tables}
}

// View is the tables as one piece of work sees them: what it consumes is
// counted apart.
type View struct {
	Store    *Store
	Locks    *Locks
	Packs    *Packs // the engine's and the worker's side
	Registry *Registry
	Workers  *Workers
}

// WithMeter opens a view that counts into m, or nowhere if m is nil. It is cheap.
func (db *DB) WithMeter(m *cost.Meter) View {
	open := func(name, role string) *table.Table { return table.New(db.client, name, role, m) }
	return View{
		Store:    &Store{open(db.tables.Executions, topology.TableExecutions)},
		Locks:    &Locks{open(db.tables.Locks, topology.TableLocks)},
		Packs:    newPacks(open(db.tables.Jobs, topology.TableJobs)),
		Registry: newRegistry(open(db.tables.Registry, topology.TableRegistry)),
		Workers:  newWorkers(open(db.tables.Jobs, topology.TableJobs)),
	}
}
