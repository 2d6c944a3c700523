package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
)

// StageProd is the stage whose data is kept: see [EngineProps.Stage].
const StageProd = "prod"

// EngineProps is everything that may be chosen about an engine. The zero value
// of each field means its default.
type EngineProps struct {
	// Stage names the install, such as prod, staging or dev; lower case letters,
	// digits and hyphens. Default: prod.
	Stage string

	// KeepData is whether tables are protected against deletion, and tables and logs
	// outlive the stack. Default: only in the stage prod.
	KeepData *bool

	// NamePrefix begins the names of tables, queues, functions, log groups, alarms
	// and the dashboard: acme gives acme-executions. Default: none, and CloudFormation
	// makes names that begin with the stack's. Either way several installs fit one
	// account. An install's prefix stays: with another one, every table would be a
	// new, empty one, and what has a name cannot be replaced under it.
	NamePrefix string

	// Version is the release that is deployed; it becomes a tag. It has to be what the
	// functions say they are, if make dist has built them. Default: that, or dev.
	Version string

	// FunctionsDir is the folder with <function>/bootstrap for each function, built
	// for linux and the Architecture. Default: dist/functions.
	FunctionsDir string

	// Architecture of the functions, arm64 or x86_64. Default: arm64.
	Architecture string

	// LogLevel is debug, info, warn or error. Default: info.
	LogLevel string

	// LogRetention is how long logs are kept. Default: three months where data is
	// kept, one week elsewhere.
	LogRetention awslogs.RetentionDays

	// Config is the engine's configuration file (docs/configuration.md), inline.
	// It holds no secrets, and takes at most 2,048 bytes. Default: none, which is every
	// default.
	Config string

	// AllowHosts are the hosts, or host:port, that HTTP blocks may name. Default:
	// none, so that a definition cannot make the stock worker call anything.
	AllowHosts []string

	// Concurrency bounds how many invocations of a function its queue causes at a
	// time, by function: lifecycle and worker, 2 to 1000. It is a bound of the
	// mapping; functions reserve nothing. Default: 50 each.
	Concurrency map[string]int

	// Capacity bounds what the tables may be charged for. Default: nothing does.
	Capacity Capacity

	// CustomerKey encrypts tables and queues in place of keys that AWS owns. It is
	// paid for by the month and by the request. The key's policy has to leave its
	// use to IAM policies of this account, as it does by default. Logs hold ids and
	// no data of runs, and the dead letters of the schedule hold nothing: both stay
	// with keys of AWS. Default: keys that AWS owns.
	CustomerKey awskms.IKey

	// JWTAuth makes the HTTP interface ask for a token of an OpenID Connect provider.
	// Default: callers sign their requests with IAM credentials and need
	// execute-api:Invoke.
	JWTAuth *JWTAuth

	// Page lets everybody load the page's static files, GET / and GET /monitor/*,
	// which hold no data: what the page asks the service for needs the same
	// authorisation as any request. Default: the files need it as well.
	Page bool

	// RequestsPerSecond and Burst throttle the HTTP interface. Default: 100, 200.
	RequestsPerSecond, Burst int

	// CORSOrigins are the web origins, scheme://host[:port], that may call the HTTP
	// interface from a browser. With some, OPTIONS is open. Default: none.
	CORSOrigins []string

	// Tracing sends traces of invocations to X-Ray. Default: off, since it is paid
	// for by the trace.
	Tracing bool

	// Telemetry sends spans to an OpenTelemetry collector. Default: none are made.
	Telemetry *Telemetry

	// AlarmTopic is told when an alarm begins and when it ends. Default: alarms are
	// only shown.
	AlarmTopic awssns.ITopic

	// Thresholds says from when on something is alarming.
	Thresholds Thresholds

	// RunbookURL is the page that alarms refer to, with the anchors of
	// docs/runbooks/README.md. Default: that file in the project's repository.
	RunbookURL string

	// Local deploys for an emulator of AWS on this machine: a function URL that
	// anybody may call stands in place of the HTTP APIID, which emulators lack, and
	// tenant and actor are what a request's headers say. The stage prod refuses it.
	Local bool
}

// Capacity is the largest number of request units a second of each table and each
// index; requests beyond it are throttled, and the engine tries again. 0 is no
// bound.
type Capacity struct {
	Read, Write int
}

// JWTAuth says whose JSON Web Tokens let a caller in, and what they say of him.
type JWTAuth struct {
	// Issuer is the provider's URL, where APIID Gateway finds its keys.
	Issuer string

	// Audience are the values of which a token's aud has to have one.
	Audience []string

	// Scopes, of which a token has to have one. Default: none is asked for.
	Scopes []string

	// TenantClaim is the claim that names the caller's tenant. Default: everybody
	// is of the tenant default.
	TenantClaim string
}

// Thresholds are those of the alarms whose right value depends on the load. The
// others have none to choose: one dead letter or one missed sweep too many is
// one too many.
type Thresholds struct {
	// WakeupAge is the age in seconds of the oldest message on the lifecycle queue.
	// Default: 1800, because messages may be delayed by up to 15 minutes and one
	// that failed comes back after the queue's visibility time-out.
	WakeupAge int

	// PackAge is the age in seconds of the oldest message on a pool's queue.
	// Default: 7200, because a message whose function was killed comes back after the
	// queue's visibility time-out of an hour and a half, and the time after which packs
	// that nobody claims end their run is shorter.
	PackAge int

	// Errors is the number of failed invocations of one function, or of answers
	// with a status of 500 or more, in five minutes. Default: 5.
	Errors int

	// Throttles is the number of throttled invocations of one function in five
	// minutes. Default: 1.
	Throttles int

	// LockAge is for how many seconds a run waits for a lock that another holds.
	// Default: 1800, half of the time after which it gives up.
	LockAge int

	// StuckExecutions is the number of executions that nothing moves. Default: 1.
	StuckExecutions int
}
