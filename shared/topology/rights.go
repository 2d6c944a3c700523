package topology

// Right is what a function may do with a table or one of its indexes.
type Right struct {
	Function string
	Table    string
	Index    string   // empty for the table itself
	Actions  []string // DynamoDB actions
}

// Rights lists all rights on tables. The roles of the deployed functions have exactly these,
// and the local stack refuses a function any other action.
//
// Workers may run code of other authors: they may read packs, but neither executions nor
// locks nor the inventory. No function may delete or scan.
var Rights = []Right{
	{FunctionAPI, TableExecutions, "", []string{GetItem, BatchGetItem, Query, PutItem, UpdateItem}},
	{FunctionAPI, TableExecutions, IndexByStatus.Name, []string{Query}},
	// The API shows what the next sweep would do.
	{FunctionAPI, TableExecutions, IndexDue.Name, []string{Query}},
	{FunctionAPI, TableJobs, IndexWorkersDue.Name, []string{Query}},
	{FunctionAPI, TableRegistry, IndexScheduled.Name, []string{Query}},
	{FunctionAPI, TableJobs, "", []string{GetItem, Query, PutItem, UpdateItem}},
	{FunctionAPI, TableLocks, "", []string{BatchGetItem, UpdateItem}},
	{FunctionAPI, TableRegistry, "", []string{GetItem, BatchGetItem, Query, PutItem, UpdateItem}},
	{FunctionAPI, TableData, "", []string{GetItem, Query, PutItem}}, // steps insert rows, also those that a request advances

	{FunctionLifecycle, TableExecutions, "", []string{GetItem, BatchGetItem, Query, PutItem, UpdateItem}},
	{FunctionLifecycle, TableJobs, "", []string{GetItem, Query, PutItem, UpdateItem}},
	{FunctionLifecycle, TableLocks, "", []string{BatchGetItem, UpdateItem}},
	{FunctionLifecycle, TableData, "", []string{GetItem, PutItem}},
	// The updates of entities that jobs ask for are written when their execution completes. Steps make schedules.
	{FunctionLifecycle, TableRegistry, "", []string{GetItem, BatchGetItem, Query, PutItem, UpdateItem}},

	// It writes how far events have been published, and starts follow-ups and what events ask for,
	// without advancing them: it changes only the mailbox of an execution.
	{FunctionObserver, TableExecutions, "", []string{GetItem, BatchGetItem, Query, PutItem, UpdateItem}},
	{FunctionObserver, TableRegistry, "", []string{GetItem, Query, PutItem, UpdateItem}},
	// It makes rows from the results of jobs.
	{FunctionObserver, TableJobs, "", []string{GetItem, Query}},
	{FunctionObserver, TableData, "", []string{PutItem}},

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

// RightsFor lists the rights of a function on a table and its indexes.
func RightsFor(function, table string) []Right {
	var rights []Right
	for _, r := range Rights {
		if r.Function == function && r.Table == table {
			rights = append(rights, r)
		}
	}
	return rights
}
