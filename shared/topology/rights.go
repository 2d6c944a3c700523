package topology

// Right is what a function may do with a table, or with one of its indexes.
type Right struct {
	Function string
	Table    string
	Index    string   // empty is the table itself
	Actions  []string // of DynamoDB
}

// Rights are all rights on tables. The roles of the deployed functions have these
// and no other, and on a local stack a function that goes beyond them is refused.
//
// A worker is code that others may have written: it sees the packs it works on,
// and neither executions nor locks nor inventory. Nobody deletes, nobody scans.
var Rights = []Right{
	{FunctionAPI, TableExecutions, "", []string{GetItem, BatchGetItem, Query, PutItem, UpdateItem}},
	{FunctionAPI, TableExecutions, IndexByStatus.Name, []string{Query}},
	// It shows what the next sweep would do.
	{FunctionAPI, TableExecutions, IndexDue.Name, []string{Query}},
	{FunctionAPI, TableJobs, IndexWorkersDue.Name, []string{Query}},
	{FunctionAPI, TableRegistry, IndexScheduled.Name, []string{Query}},
	{FunctionAPI, TableJobs, "", []string{GetItem, Query, PutItem, UpdateItem}},
	{FunctionAPI, TableLocks, "", []string{BatchGetItem, UpdateItem}},
	{FunctionAPI, TableRegistry, "", []string{GetItem, BatchGetItem, Query, PutItem, UpdateItem}},

	{FunctionLifecycle, TableExecutions, "", []string{GetItem, BatchGetItem, Query, PutItem, UpdateItem}},
	{FunctionLifecycle, TableJobs, "", []string{GetItem, Query, PutItem, UpdateItem}},
	{FunctionLifecycle, TableLocks, "", []string{BatchGetItem, UpdateItem}},
	// What jobs have found out about entities is written when their run ends well.
	{FunctionLifecycle, TableRegistry, "", []string{GetItem, BatchGetItem, Query, UpdateItem}},

	{FunctionSweeper, TableExecutions, IndexDue.Name, []string{Query}},
	{FunctionSweeper, TableExecutions, "", []string{BatchGetItem, PutItem}},
	{FunctionSweeper, TableRegistry, "", []string{GetItem, PutItem}},
	{FunctionSweeper, TableRegistry, IndexScheduled.Name, []string{Query}},
	{FunctionSweeper, TableJobs, "", []string{GetItem, UpdateItem}},
	{FunctionSweeper, TableJobs, IndexWorkersDue.Name, []string{Query}},

	{FunctionWorker, TableJobs, "", []string{GetItem, PutItem, UpdateItem}},
}

// The actions that occur in [Rights].
const (
	GetItem      = "GetItem"
	BatchGetItem = "BatchGetItem"
	Query        = "Query"
	PutItem      = "PutItem"
	UpdateItem   = "UpdateItem"
)

// RightsFor are a function's rights on a table and its indexes.
func RightsFor(function, table string) []Right {
	var rights []Right
	for _, r := range Rights {
		if r.Function == function && r.Table == table {
			rights = append(rights, r)
		}
	}
	return rights
}
