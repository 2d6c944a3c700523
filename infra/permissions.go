package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// right is what a function may do with a table, or with one of its indexes.
type right struct {
	function string
	table    string
	index    string // empty is the table itself
	actions  []string
}

// rights are all rights on tables. A worker is code that others may have written:
// it sees the packs it works on, and neither executions nor locks nor inventory.
// Nobody deletes, nobody scans.
var rights = []right{
	{topology.FunctionAPI, topology.TableExecutions, "", []string{getItem, batchGetItem, query, putItem, updateItem}},
	{topology.FunctionAPI, topology.TableExecutions, topology.IndexByStatus.Name, []string{query}},
	{topology.FunctionAPI, topology.TableJobs, "", []string{getItem, query, putItem, updateItem}},
	{topology.FunctionAPI, topology.TableLocks, "", []string{getItem, batchGetItem, updateItem}},
	{topology.FunctionAPI, topology.TableRegistry, "", []string{getItem, batchGetItem, query, putItem, updateItem}},

	{topology.FunctionLifecycle, topology.TableExecutions, "", []string{getItem, batchGetItem, query, putItem, updateItem}},
	{topology.FunctionLifecycle, topology.TableJobs, "", []string{getItem, query, putItem, updateItem}},
	{topology.FunctionLifecycle, topology.TableLocks, "", []string{getItem, batchGetItem, updateItem}},
	{topology.FunctionLifecycle, topology.TableRegistry, "", []string{getItem, batchGetItem, query}},

	{topology.FunctionSweeper, topology.TableExecutions, topology.IndexDue.Name, []string{query}},
	{topology.FunctionSweeper, topology.TableExecutions, "", []string{batchGetItem, putItem}},
	{topology.FunctionSweeper, topology.TableRegistry, "", []string{getItem, putItem}},
	{topology.FunctionSweeper, topology.TableRegistry, topology.IndexScheduled.Name, []string{query}},
	{topology.FunctionSweeper, topology.TableJobs, "", []string{getItem, updateItem}},
	{topology.FunctionSweeper, topology.TableJobs, topology.IndexWorkersDue.Name, []string{query}},

	{topology.FunctionWorker, topology.TableJobs, "", []string{getItem, putItem, updateItem}},
}

const (
	getItem      = "dynamodb:GetItem"
	batchGetItem = "dynamodb:BatchGetItem"
	query        = "dynamodb:Query"
	putItem      = "dynamodb:PutItem"
	updateItem   = "dynamodb:UpdateItem"
)

// tableRights are a function's rights on a table and its indexes.
func tableRights(function, table string) []right {
	var found []right
	for _, r := range rights {
		if r.function == function && r.table == table {
			found = append(found, r)
		}
	}
	return found
}

// looksUpPools is whether a function meets pools that are not the engine's own.
// A worker sends to its own pool only, and the sweeper to none.
func looksUpPools(function string) bool {
	return function == topology.FunctionAPI || function == topology.FunctionLifecycle
}

// permit grants a function its rights on the tables, the lifecycle queue and the
// lookup of pools. Rights on pools' queues come with the pools.
func (e *Engine) permit(f *Function) {
	for _, table := range topology.Tables {
		for _, r := range tableRights(f.role, table) {
			sid, arn := "Table"+title(table), *e.Tables[table].TableArn()
			if r.index != "" {
				sid, arn = sid+title(r.index), arn+"/index/"+r.index
			}
			f.allow(sid, []string{arn}, r.actions...)
		}
	}
	f.send("SendLooks", e.Lifecycle)
	if looksUpPools(f.role) {
		// The one resource that is not named whole: a pool's name is whatever a block
		// says it is. The right tells only whether such a queue exists.
		arn := awscdk.Stack_Of(e.Construct).FormatArn(&awscdk.ArnComponents{
			Service: jsii.String("sqs"), Resource: jsii.String(e.poolPrefix() + "*"),
		})
		f.allow("LookUpPools", []string{*arn}, "sqs:GetQueueUrl")
	}
}

func (f *Function) send(sid string, q *Queue) {
	f.allow(sid, []string{*q.QueueArn()}, "sqs:SendMessage")
}

// allow adds a statement to the policy of a function's role.
func (f *Function) allow(sid string, resources []string, actions ...string) {
	f.Role.AddToPolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: &sid, Actions: jsii.Strings(actions...), Resources: jsii.Strings(resources...),
	}))
}
