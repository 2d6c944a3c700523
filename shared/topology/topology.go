// Package topology holds the names on which infrastructure and code must agree: tables,
// indexes, key attributes, queues, functions, and the environment variables that tell a
// function where they are.
//
// The CDK stack, the local stack and the adapters all use these names, so that each is
// defined once. The package imports nothing of this module.
package topology

import (
	"cmp"
	"net"
	"net/url"
	"regexp"
	"strings"
)

// Tables, by role. AWS generates the physical name, and a function gets it in the
// environment variable that [TableEnv] gives for the role.
const (
	TableExecutions = "executions"
	TableJobs       = "jobs"
	TableLocks      = "locks"
	TableRegistry   = "registry"
	TableData       = "data" // rows of the tables of tenants; no data of executions
)

// Tables lists every table role, in the order in which they are created.
var Tables = []string{TableExecutions, TableJobs, TableLocks, TableRegistry, TableData}

// Key attributes, the same in every table: a string partition key and a string sort key.
// AttrTTL holds the Unix second after which DynamoDB may delete the item.
const (
	AttrPK  = "pk"
	AttrSK  = "sk"
	AttrTTL = "ttl"
)

// Index is a global secondary index of a table. It projects only the keys: lists take ids
// from the index and read the states consistently from the table.
type Index struct {
	Name      string
	Partition string // attribute, string
	Sort      string // attribute
	SortType  string // "S" or "N"
}

// IndexByStatus lists executions by tenant, shard and state, newest first; transient states count
// as running, and executions that have just begun to run are left out. IndexDue is sparse: it contains the executions that have a timer, by shard, sorted by
// the Unix millisecond at which the timer is due. IndexWorkersDue does the same for the polling
// workers in the jobs table, and IndexScheduled for the schedules in the registry.
var (
	IndexByStatus = Index{Name: "by-status", Partition: "statusKey", Sort: "id", SortType: "S"}
	IndexDue      = Index{Name: "due", Partition: "dueShard", Sort: "dueAt", SortType: "N"}

	IndexWorkersDue = Index{Name: "workers-due", Partition: "dueShard", Sort: "dueAt", SortType: "N"}
	IndexScheduled  = Index{Name: "scheduled", Partition: "dueShard", Sort: "dueAt", SortType: "N"}
)

// Indexes lists the indexes of each table that has any.
var Indexes = map[string][]Index{
	TableExecutions: {IndexByStatus, IndexDue},
	TableJobs:       {IndexWorkersDue},
	TableRegistry:   {IndexScheduled},
}

// Shards of the indexes. The shard of an execution or a worker is a hash of its id.
const (
	StatusShards = 4
	DueShards    = 16
	RowShards    = 8 // of each table of a tenant: partitions of its own
)

// QueueLifecycle carries the wake-ups of executions. QueueEvents carries announcements: that an
// execution has events that were not handed to its subscriptions yet. QueueHooksOut carries these
// events to their receivers, QueueHooksIn events of EventBridge to the triggers that accept them.
// QueueJobsPrefix plus the name of a pool is the queue of that pool's packs. Each queue has a
// dead-letter queue of the same name plus [DLQSuffix]. All are standard queues.
const (
	QueueLifecycle  = "lifecycle"
	QueueEvents     = "events"
	QueueHooksOut   = "hooks-out"
	QueueHooksIn    = "hooks-in"
	QueueJobsPrefix = "jobs-"
	DLQSuffix       = "-dlq"
	PoolDefault     = "default"
)

// MaxReceiveJobs and MaxReceiveLifecycle are how often a message is received before it moves to its
// dead-letter queue. Packs that have to wait are received more often than they are worked on, hence
// the higher number.
const (
	MaxReceiveJobs      = 20
	MaxReceiveLifecycle = 10
	MaxReceiveEvents    = 20 // more often than handlers retry while another one is publishing events, see publishRetry in package engine
	MaxReceiveHooksOut  = 9  // the retry delays of a delivery add up to a day
	MaxReceiveHooksIn   = 9  // as for a delivery
)

// Functions, by role: the folder under functions/ that has the main package.
const (
	FunctionAPI       = "api"
	FunctionLifecycle = "lifecycle"
	FunctionObserver  = "observer"
	FunctionSweeper   = "sweeper"
	FunctionWorker    = "worker"
)

// Functions lists every function role.
var Functions = []string{FunctionAPI, FunctionLifecycle, FunctionObserver, FunctionSweeper, FunctionWorker}

// FunctionTimeoutSeconds is the timeout of each function in seconds. A queue that triggers a
// function has a visibility timeout of [VisibilityFactor] times as much.
var FunctionTimeoutSeconds = map[string]int{
	FunctionAPI:       29,
	FunctionLifecycle: 120,
	FunctionObserver:  30, // twice the timeout of one request to a receiver
	FunctionSweeper:   55,
	FunctionWorker:    900, // a job may take 14 minutes
}

// FunctionMemoryMB is the memory of each function, unless a deployment sets another for a pool.
const FunctionMemoryMB = 512

// VisibilityFactor is the ratio that AWS recommends between the visibility timeout of a queue
// and the timeout of the function that it triggers.
const VisibilityFactor = 6

// Environment variables that name the deployed parts.
const (
	EnvTableExecutions  = "LOCKSTEP_TABLE_EXECUTIONS"
	EnvTableJobs        = "LOCKSTEP_TABLE_JOBS"
	EnvTableLocks       = "LOCKSTEP_TABLE_LOCKS"
	EnvTableRegistry    = "LOCKSTEP_TABLE_REGISTRY"
	EnvTableData        = "LOCKSTEP_TABLE_DATA"
	EnvQueueLifecycle   = "LOCKSTEP_QUEUE_LIFECYCLE"    // URL
	EnvQueueEvents      = "LOCKSTEP_QUEUE_EVENTS"       // URL; without it nothing is observed
	EnvQueueHooksOut    = "LOCKSTEP_QUEUE_HOOKS_OUT"    // URL
	EnvQueueHooksIn     = "LOCKSTEP_QUEUE_HOOKS_IN"     // URL; without it no events come from EventBridge
	EnvQueueJobsPrefix  = "LOCKSTEP_QUEUE_JOBS_PREFIX"  // prefix of the queue name, before the pool; resolved with GetQueueUrl
	EnvQueueJobsURLs    = "LOCKSTEP_QUEUE_JOBS_URLS"    // optional JSON object pool -> URL, which takes precedence
	EnvConfig           = "LOCKSTEP_CONFIG"             // path of a YAML file, optional
	EnvConfigInline     = "LOCKSTEP_CONFIG_INLINE"      // the same document, inline, optional
	EnvTrustHeaders     = "LOCKSTEP_TRUST_HEADERS"      // "true" takes tenant and actor from X-Tenant and X-Actor
	EnvTenantClaim      = "LOCKSTEP_TENANT_CLAIM"       // JWT claim that names the tenant, optional
	EnvRolesClaim       = "LOCKSTEP_ROLES_CLAIM"        // JWT claim that names the roles of the caller, optional
	EnvTokenKeys        = "LOCKSTEP_TOKEN_KEYS"         // the setting token.keys
	EnvTokenAddress     = "LOCKSTEP_TOKEN_ADDRESS"      // the setting token.address
	EnvSealedKey        = "LOCKSTEP_SEALED_KEY"         // the setting sealed.key
	EnvSecretsFrom      = "LOCKSTEP_SECRETS_FROM"       // where the secrets for jobs are
	EnvWebOrigins       = "LOCKSTEP_WEB_ORIGINS"        // comma-separated origins that browsers may call from, optional
	EnvRegions          = "LOCKSTEP_REGIONS"            // the setting regions
	EnvWorkerAllowHosts = "LOCKSTEP_WORKER_ALLOW_HOSTS" // comma-separated hosts that HTTP blocks may use
	EnvCaptchaURL       = "LOCKSTEP_CAPTCHA_URL"        // where captchas are checked, on a local stack only; optional
	EnvFunction         = "LOCKSTEP_FUNCTION"           // role of the function whose rights apply; set by the local stack
	EnvURL              = "LOCKSTEP_URL"                // URL of the HTTP API, for clients and polling workers
	EnvToken            = "LOCKSTEP_TOKEN"              // token of clients and polling workers, if the service requires one
	EnvRegion           = "LOCKSTEP_REGION"             // AWS region for which clients sign requests to a domain of your own, optional
	EnvActor            = "LOCKSTEP_ACTOR"              // name of the caller of the command, optional
	EnvRoles            = "LOCKSTEP_ROLES"              // roles of the caller of the command, optional
	EnvTenant           = "LOCKSTEP_TENANT"             // tenant of clients and polling workers, optional
	EnvProfile          = "LOCKSTEP_PROFILE"            // profile of the command, optional
)

// EnvVars lists these variables, and others that are not settings of the configuration.
var EnvVars = []string{
	EnvTableExecutions, EnvTableJobs, EnvTableLocks, EnvTableRegistry, EnvTableData, EnvQueueLifecycle, EnvQueueEvents, EnvQueueHooksOut, EnvQueueHooksIn, EnvQueueJobsPrefix, EnvQueueJobsURLs, EnvConfig, EnvConfigInline,
	EnvTrustHeaders, EnvTenantClaim, EnvRolesClaim, EnvWebOrigins, EnvRegions, EnvWorkerAllowHosts, EnvCaptchaURL, EnvFunction, EnvURL, EnvToken, EnvTenant, EnvRegion, EnvActor, EnvRoles, EnvProfile, EnvDeployment,
}

// EventTemplate is the input template of an EventBridge rule for the queue [QueueHooksIn]. It makes
// the event a JSON text of its own, so that nothing in it can change the tenant, whose name needs
// no escaping there.
func EventTemplate(tenant string) string {
	return `{"v":1,"tenant":"` + tenant + `","event":<aws.events.event.json>}`
}

// TenantDefault is the tenant of callers that name none.
const TenantDefault = "default"

// TableEnv maps a table role to the variable that holds its physical name.
var TableEnv = map[string]string{
	TableExecutions: EnvTableExecutions,
	TableJobs:       EnvTableJobs,
	TableLocks:      EnvTableLocks,
	TableRegistry:   EnvTableRegistry,
	TableData:       EnvTableData,
}

// JobsQueue returns the name of the queue of a worker pool, without a deployment prefix.
func JobsQueue(pool string) string { return QueueJobsPrefix + PoolInQueueName(pool) }

// PoolInQueueName returns a pool's name as part of a queue's name, which must not contain @.
func PoolInQueueName(pool string) string {
	return strings.Replace(pool, regionSeparator, regionInQueueName, 1)
}

// IsQueueOfRegion reports whether a queue belongs to a pool in a region.
func IsQueueOfRegion(queue string) bool { return strings.Contains(queue, regionInQueueName) }

// The region of a pool, in its name and in that of its queue.
const (
	regionSeparator   = "@"
	regionInQueueName = "--"
)

// PoolInRegion returns the pool that serves the jobs of a pool for executions with the region: the
// pool itself without one.
func PoolInRegion(pool, region string) string {
	if region == "" {
		return pool
	}
	return cmp.Or(pool, PoolDefault) + regionSeparator + region
}

// RegionOf returns the region of a pool, empty for none.
func RegionOf(pool string) string {
	_, region, _ := strings.Cut(pool, regionSeparator)
	return region
}

// RegionNames describes what [ValidRegion] accepts. RegionPattern is the part of it that a pattern
// can express.
const (
	RegionNames   = "small letters and digits, in words joined by -, at most 20 characters, such as eu or eu-central-1, without " + DLQSuffix + " at the end"
	RegionPattern = "^[a-z0-9]+(-[a-z0-9]+)*$"
	MaxRegion     = 20
	MaxRegions    = 20 // of one deployment
)

var regionRE = regexp.MustCompile(RegionPattern)

// ValidRegion reports whether an execution may have the region, which becomes part of the names of
// queues.
func ValidRegion(name string) bool {
	return len(name) <= MaxRegion && regionRE.MatchString(name) && !NamesDeadLetters(name)
}

// Addresses describes what [ValidAddress] accepts.
const Addresses = "https://HOST, of at most 200 characters and with nothing behind it but a path; http:// is for localhost"

const maxAddress = 200

// ValidAddress reports whether links may begin with the address.
func ValidAddress(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.User != nil || len(address) > maxAddress || strings.ContainsAny(address, "?# ") {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}

// PoolNames describes what [ValidPool] accepts.
const PoolNames = "a letter, then letters, digits, - and _, at most 40, without " + regionInQueueName + ", which names the queue of a region, and without " + DLQSuffix + " at the end, which names the dead letters of another pool"

var poolRE = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,39}$`)

// ValidPool reports whether a pool may have a name. Blocks and deployments have the same rule, so
// that both can name the same pools. The queue of a pool is found by its name.
func ValidPool(name string) bool {
	return poolRE.MatchString(name) && !NamesDeadLetters(name) && !strings.Contains(name, regionInQueueName)
}

// NamesDeadLetters reports whether the queue of a pool with this name would be the dead-letter
// queue of another.
func NamesDeadLetters(pool string) bool { return strings.HasSuffix(pool, DLQSuffix) }
