package topology

// Tables, by role. The physical name is generated on AWS and handed to a
// function through the environment variable of the same row in [TableEnv].
const (
	TableExecutions = "executions"
	TableJobs       = "jobs"
	TableLocks      = "locks"
	TableRegistry   = "registry"
)

// Tables lists every table role, in the order in which they are created.
var Tables = []string{TableExecutions, TableJobs, TableLocks, TableRegistry}

// Key attributes, the same in every table: a string partition key and a string
// sort key. TTL holds the Unix second after which an item may be dropped.
const (
	AttrPK  = "pk"
	AttrSK  = "sk"
	AttrTTL = "ttl"
)

// Index is one global secondary index of a table. It projects the table's keys
// only: lists take ids from an index and states from strong reads.
type Index struct {
	Name      string
	Partition string // attribute, string
	Sort      string // attribute
	SortType  string // "S" or "N"
}

// IndexByStatus lists executions by tenant, shard and exact state, newest first.
// IndexDue is sparse: it holds the executions with an alarm set, by shard, and
// sorts by the Unix millisecond at which the alarm rings. IndexWorkersDue does the
// same for the polling workers among the jobs table's items, and IndexScheduled for
// the schedules in the registry.
var (
	IndexByStatus = Index{Name: "by-status", Partition: "statusKey", Sort: "id", SortType: "S"}
	IndexDue      = Index{Name: "due", Partition: "dueShard", Sort: "dueAt", SortType: "N"}

	IndexWorkersDue = Index{Name: "workers-due", Partition: "dueShard", Sort: "dueAt", SortType: "N"}
	IndexScheduled  = Index{Name: "scheduled", Partition: "dueShard", Sort: "dueAt", SortType: "N"}
)

// Indexes are the indexes of each table that has any.
var Indexes = map[string][]Index{
	TableExecutions: {IndexByStatus, IndexDue},
	TableJobs:       {IndexWorkersDue},
	TableRegistry:   {IndexScheduled},
}

// Shards of the indexes. An execution's or a worker's shard is a hash of its id.
const (
	StatusShards = 4
	DueShards    = 4
)

// QueueLifecycle carries "look at this execution"; QueueJobsPrefix plus a pool's
// name is the queue on which that pool's packs wait. Each has a dead-letter
// queue of the same name plus [DLQSuffix]. All are standard queues.
const (
	QueueLifecycle  = "lifecycle"
	QueueJobsPrefix = "jobs-"
	DLQSuffix       = "-dlq"
	PoolDefault     = "default"
)

// MaxReceiveJobs and MaxReceiveLifecycle bound how often a message is received
// before it moves to its dead-letter queue. Packs that have to wait are received
// more often than they are worked on, hence the high number.
const (
	MaxReceiveJobs      = 20
	MaxReceiveLifecycle = 10
)

// Functions, by role: the folder under functions/ that holds each one's main.
const (
	FunctionAPI       = "api"
	FunctionLifecycle = "lifecycle"
	FunctionSweeper   = "sweeper"
	FunctionWorker    = "worker"
)

// Functions lists every function role.
var Functions = []string{FunctionAPI, FunctionLifecycle, FunctionSweeper, FunctionWorker}

// FunctionTimeoutSeconds is each function's time-out in seconds. A queue that feeds a
// function has a visibility time-out of [VisibilityFactor] times as much.
var FunctionTimeoutSeconds = map[string]int{
	FunctionAPI:       29,
	FunctionLifecycle: 120,
	FunctionSweeper:   55,
	FunctionWorker:    900, // a job may take 14 minutes
}

// VisibilityFactor is what AWS asks for between a function's time-out and the
// visibility time-out of the queue in front of it.
const VisibilityFactor = 6

// Environment variables that name the deployed parts.
const (
	EnvTableExecutions  = "LOCKSTEP_TABLE_EXECUTIONS"
	EnvTableJobs        = "LOCKSTEP_TABLE_JOBS"
	EnvTableLocks       = "LOCKSTEP_TABLE_LOCKS"
	EnvTableRegistry    = "LOCKSTEP_TABLE_REGISTRY"
	EnvQueueLifecycle   = "LOCKSTEP_QUEUE_LIFECYCLE"    // URL
	EnvQueueJobsPrefix  = "LOCKSTEP_QUEUE_JOBS_PREFIX"  // name before the pool, resolved with GetQueueUrl
	EnvQueueJobsURLs    = "LOCKSTEP_QUEUE_JOBS_URLS"    // optional JSON object pool -> URL, looked at first
	EnvConfig           = "LOCKSTEP_CONFIG"             // path of a YAML file, optional
	EnvConfigInline     = "LOCKSTEP_CONFIG_INLINE"      // the same document, inline, optional
	EnvTrustHeaders     = "LOCKSTEP_TRUST_HEADERS"      // "true" takes tenant and actor from X-Tenant and X-Actor
	EnvTenantClaim      = "LOCKSTEP_TENANT_CLAIM"       // JWT claim that names the tenant, optional
	EnvWebOrigins       = "LOCKSTEP_WEB_ORIGINS"        // comma-separated origins whose pages may call from a browser, optional
	EnvWorkerAllowHosts = "LOCKSTEP_WORKER_ALLOW_HOSTS" // comma-separated hosts that HTTP blocks may name
	EnvFunction         = "LOCKSTEP_FUNCTION"           // role of the function, whose rights it keeps to; a local stack sets it
	EnvURL              = "LOCKSTEP_URL"                // where the HTTP API is; clients and polling workers
	EnvToken            = "LOCKSTEP_TOKEN"              // what lets clients and polling workers in, where the service asks for tokens
	EnvTenant           = "LOCKSTEP_TENANT"             // whom clients and polling workers speak for, optional
)

// TenantDefault is the tenant of whoever names none.
const TenantDefault = "default"

// TableEnv maps a table role to the variable that holds its physical name.
var TableEnv = map[string]string{
	TableExecutions: EnvTableExecutions,
	TableJobs:       EnvTableJobs,
	TableLocks:      EnvTableLocks,
	TableRegistry:   EnvTableRegistry,
}

// JobsQueue names the queue of a worker pool, without any deployment prefix.
func JobsQueue(pool string) string { return QueueJobsPrefix + pool }
