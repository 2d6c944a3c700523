package infra

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// StageProd is the stage whose data is kept: see [EngineProps.Stage].
const StageProd = "prod"

// EngineProps configures an engine. The zero value of each field means its default.
type EngineProps struct {
	// Stage names the deployment, such as prod, staging or dev: lower case letters,
	// digits and hyphens. Default: prod.
	Stage string

	// KeepData protects tables against deletion and keeps tables and logs when the stack
	// is deleted. Default: only in the stage prod.
	KeepData *bool

	// NamePrefix is the prefix of the names of tables, queues, functions, log groups,
	// alarms and the dashboard: acme gives acme-executions. Default: none, and
	// CloudFormation generates names that start with the stack's. Either way several
	// deployments fit into one account. Never change the prefix of a deployment: every
	// table would be replaced by a new, empty one.
	NamePrefix string

	// Version is the deployed release; it becomes a tag. It must equal the version of the
	// functions, and that must be the version of this module if the app has a release of
	// it. Default: the version of the functions, or dev.
	Version string

	// FunctionsDir is the directory with <function>/bootstrap for each function, built
	// for Linux and the Architecture with "lockstep functions". Default: dist/functions.
	FunctionsDir string

	// Architecture of the functions, arm64 or x86_64. Default: arm64.
	Architecture string

	// LogLevel is debug, info, warn or error. Default: info.
	LogLevel string

	// LogRetention is the retention of the logs. Default: three months if KeepData, else
	// one week.
	LogRetention awslogs.RetentionDays

	// Config is the engine's configuration file (docs/configuration.md), inline.
	// It contains no secrets and takes at most 2,048 bytes. Default: none, so that every
	// setting has its default.
	Config string

	// AllowHosts are the hosts, or host:port, that HTTP blocks and webhooks may call. Default:
	// none, so that neither a definition nor a subscription can make a function call any host.
	AllowHosts []string

	// Observer names the receivers of events on AWS. Default: none, so that subscriptions can only
	// use webhooks and workflows.
	Observer ObserverProps

	// EventSources are the EventBridge buses, and the sources, whose events triggers of workflows
	// take. It is refused with a CustomerKey. Default: none, so that events come only through POST
	// /events.
	EventSources []EventSource

	// Concurrency is the maximum number of concurrent invocations by a queue, by function:
	// lifecycle, observer and worker, 2 to 1000. It is a limit of the mapping; functions reserve no
	// concurrency. Default: 50 each.
	Concurrency map[string]int

	// Capacity limits the request units of the tables. Default: no limit.
	Capacity Capacity

	// WarmThroughput is the load that each table and each index can take at once, without the
	// minutes they otherwise need to adapt to a sudden rise. AWS bills it once, when it is set or
	// raised; it cannot be lowered. Default: that of AWS for a new table, 12000 reads and 4000
	// writes.
	WarmThroughput Capacity

	// CustomerKey encrypts tables and queues instead of keys owned by AWS. AWS bills it by the
	// month and by the request. The key's policy must leave its use to IAM policies of this
	// account, as it does by default. Logs contain ids but no data of executions, and the dead
	// letters of the schedule contain nothing, so both stay encrypted with keys of AWS. Default:
	// keys owned by AWS.
	CustomerKey awskms.IKey

	// PermissionsBoundary is the ARN of the IAM policy, or its name in this account, that
	// bounds every role. Default: none, unless the app or CDK's context sets one.
	PermissionsBoundary string

	// WorkerNetwork connects the stock worker to a VPC. Default: none, so that it reaches only
	// public hosts.
	WorkerNetwork *Network

	// ExistingTables are the names of tables that the engine uses instead of creating them, by
	// role, after a restore (docs/runbooks/restore.md). They must have the same keys and indexes as
	// the tables that the engine creates; their protection, TTL and policies are the responsibility
	// of whoever made them. If the table data, whose rows no execution needs, is not named, it is
	// created. Default: none.
	ExistingTables map[string]string

	// Domain is a custom domain for the HTTP interface. Default: none.
	Domain *Domain

	// JWTAuth makes the HTTP interface require a token of an OpenID Connect provider.
	// Default: callers sign their requests with IAM credentials and need
	// execute-api:Invoke.
	JWTAuth *JWTAuth

	// TokenKeys is the ARN of the secret in Secrets Manager with the keys of resume tokens
	// (docs/deploying.md). The functions that make and check tokens may read this secret and no
	// other. If it is encrypted with a customer's key, that key must let their roles decrypt it.
	// Default: none, so that no tokens can be made.
	TokenKeys string

	// Secrets says where the secrets are that definitions and blocks refer to (secrets.from):
	// secretsmanager: or ssm:, followed by the prefix of their names, which ends with a slash. The
	// workers, including those of added pools, may read the values of all secrets with that prefix;
	// the API may see whether there are any, but no values. If secrets are encrypted with a
	// customer's key, that key must let the roles of the workers decrypt them. Default: none, so
	// that jobs with secrets fail.
	Secrets string

	// SealedKey is the ARN of a key of KMS under which parameters with x-sealed are sealed
	// (sealed.key). The API may make data keys with it and unwrap them, the workers, those of added
	// pools included, may unwrap them. The policy of the key has to let their roles do so, as that
	// of a new key does. Default: none, so that no such parameter is taken.
	SealedKey string

	// OpenAnswers lets the bearers of resume tokens answer without other credentials. GET and POST
	// /answers are then checked by the engine instead of the gateway, and throttled to a tenth of
	// RequestsPerSecond and Burst. GET /answer, the page for it, and GET /monitor/*, the files that
	// it shares with the monitor, contain no data. It needs TokenKeys. Default: off, so that these
	// routes need the same credentials as all others, which a bearer does not have.
	OpenAnswers bool

	// TokenAddress is where people reach the answer page, GET /answer, if that is not the address
	// of the HTTP API itself: https:// and a host. Links with tokens begin with it (token.address).
	// Default: with OpenAnswers the address of the HTTP API, otherwise none, so that there are no
	// links.
	TokenAddress string

	// OpenTriggers lets everybody call the triggers of workflows, POST /hooks/TENANT/NAME. Each
	// call must prove with a secret who makes it, which the engine checks instead of the gateway.
	// The exception are forms, which everybody may send, and read at GET /forms/TENANT/NAME. All
	// these calls together are throttled to a tenth of RequestsPerSecond and Burst. It needs
	// Secrets, and lets the API read those with hooks/ in their names, which are the secrets of
	// triggers. Default: off.
	OpenTriggers bool

	// Page lets everybody load the page's static files, GET / and GET /monitor/*. They contain no
	// data: the page's own requests need the same authorisation as any request. Default: the files
	// need it too.
	Page bool

	// RequestsPerSecond and Burst throttle the HTTP interface. Default: 100, 200.
	RequestsPerSecond, Burst int

	// CORSOrigins are the web origins, scheme://host[:port], that may call the HTTP
	// interface from a browser. If there are any, OPTIONS needs no authorisation.
	// Default: none.
	CORSOrigins []string

	// Tracing sends traces of invocations to X-Ray. Default: off, because AWS bills each trace.
	Tracing bool

	// Telemetry sends spans to an OpenTelemetry collector. Default: no spans.
	Telemetry *Telemetry

	// AlarmTopic is notified when an alarm is raised and when it ends. Default: none, so that
	// alarms notify nobody.
	AlarmTopic awssns.ITopic

	// WarningTopic is notified of alarms that can wait for working hours. Default: the AlarmTopic.
	WarningTopic awssns.ITopic

	// Thresholds are the thresholds of alarms that depend on the load.
	Thresholds Thresholds

	// RunbookURL is the page that the alarms link to, with the anchors of
	// docs/runbooks/README.md. Default: that file in the project's repository.
	RunbookURL string

	// Local deploys for an emulator of AWS on this machine: a function URL that anybody
	// may call replaces the HTTP API, which emulators lack, and the engine takes tenant
	// and actor from the request's headers. The stage prod refuses it.
	Local bool
}

// Capacity is the maximum number of request units per second of each table and each index. DynamoDB
// throttles further requests, and the engine retries them. 0 means no limit.
type Capacity struct {
	Read, Write int
}

// JWTAuth configures authorisation by JSON Web Tokens.
type JWTAuth struct {
	// Issuer is the provider's URL, where API Gateway finds its keys.
	Issuer string

	// Audience lists the accepted values of a token's aud.
	Audience []string

	// Scopes lists scopes of which a token must have at least one. Default: none required.
	Scopes []string

	// ReadScopes lists further scopes that are enough for GET requests, which change nothing. It
	// needs Scopes. Default: none.
	ReadScopes []string

	// TenantClaim is the claim with the caller's tenant. Default: every caller belongs to the
	// tenant default.
	TenantClaim string

	// RolesClaim is the claim with the caller's roles, which decide who may answer steps that
	// wait for people and, with access in the configuration, who may do what. Default: callers
	// have no roles.
	RolesClaim string
}

// Thresholds are the thresholds of the alarms that depend on the load. The other alarms
// have fixed thresholds: a single dead letter is one too many.
type Thresholds struct {
	// WakeupAge is the age in seconds of the oldest message on the lifecycle queue.
	// Default: 1800, because messages may be delayed by up to 15 minutes and a failed
	// one returns after the queue's visibility timeout.
	WakeupAge int

	// PackAge is the age in seconds of the oldest message on a pool's queue.
	// Default: 1800, half of the time (job.unclaimed) after which packs that nobody has
	// claimed end their execution. A function that was killed raises it too: its message
	// returns after the queue's visibility timeout of an hour and a half.
	PackAge int

	// FailedSafe is the number of executions that end FAILED_SAFE within a quarter of an
	// hour. Default: 10. A single FAILED_UNSAFE is one too many.
	FailedSafe int

	// FailedWakeups is the number of wake-ups that could not be handled within a quarter of an
	// hour. Default: 3, the tries of one execution that cannot be advanced.
	FailedWakeups int

	// TableThrottles is the number of requests that a table and its indexes throttle in
	// five minutes. Default: 10.
	TableThrottles int

	// Errors is the number of failed invocations of one function, or of responses with
	// a status of 500 or more, in five minutes. Default: 5.
	Errors int

	// Throttles is the number of throttled invocations of one function in five
	// minutes. Default: 1.
	Throttles int

	// LockAge is the number of seconds that an execution has waited for a lock that another one
	// holds. Default: 1800, half of the time after which it gives up.
	LockAge int

	// StuckExecutions is the number of executions that do not advance. Default: 1.
	StuckExecutions int
}

// Telemetry sends spans of requests, wake-ups and jobs to an OpenTelemetry collector
// (docs/observability.md).
type Telemetry struct {
	// Endpoint is the collector's address for OTLP over HTTP. For a collector that runs
	// as an extension in each function, as AWS recommends, it is http://localhost:4318.
	Endpoint string

	// Layers are Lambda layers with such an extension, for the functions' architecture.
	// Default: none.
	Layers []awslambda.ILayerVersion

	// Environment sets further OTEL_* variables such as OTEL_TRACES_SAMPLER and
	// OTEL_RESOURCE_ATTRIBUTES. Everybody who may read the function's configuration can
	// read them, so Validate refuses headers, which may contain credentials: configure
	// those in the collector.
	Environment map[string]string
}

// Names of OpenTelemetry variables.
const (
	otelPrefix        = "OTEL_"
	otelHeadersSuffix = "_HEADERS"
	envOTLPEndpoint   = "OTEL_EXPORTER_OTLP_ENDPOINT"
)

// Validate returns an error for invalid settings; nil means no telemetry.
func (t *Telemetry) Validate() error {
	if t == nil {
		return nil
	}
	if !strings.HasPrefix(t.Endpoint, "http://") && !strings.HasPrefix(t.Endpoint, "https://") || strings.Contains(t.Endpoint, "@") {
		return fmt.Errorf("telemetry: the endpoint must be an http or https URL without credentials")
	}
	for name := range t.Environment {
		if !strings.HasPrefix(name, otelPrefix) || strings.HasSuffix(name, otelHeadersSuffix) || name == envOTLPEndpoint {
			return fmt.Errorf("telemetry: variable %s: want OTEL_*, no headers, and the endpoint in its own field", name)
		}
	}
	return nil
}

// lambdaLayers returns the layers of every function.
func (t *Telemetry) lambdaLayers() *[]awslambda.ILayerVersion {
	if t == nil || len(t.Layers) == 0 {
		return nil
	}
	return &t.Layers
}

// setEnv sets the variables of a function.
func (t *Telemetry) setEnv(set func(name, value string)) {
	if t == nil {
		return
	}
	set(envOTLPEndpoint, t.Endpoint)
	for _, name := range slices.Sorted(maps.Keys(t.Environment)) {
		set(name, t.Environment[name])
	}
}

const (
	defaultRunbooks    = "https://github.com/lockstep-run/lockstep/blob/main/docs/runbooks/README.md"
	defaultConcurrency = 50
)

var (
	stageRE       = regexp.MustCompile(`^[a-z][a-z0-9-]{0,19}$`)
	namePrefixRE  = regexp.MustCompile(`^[a-z][a-z0-9-]{0,28}[a-z0-9]$`)
	kmsKeyRE      = regexp.MustCompile(`^arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[A-Za-z0-9-]+$`)
	secretsFromRE = regexp.MustCompile(`^(secretsmanager:[A-Za-z0-9_+=.@-]+(/[A-Za-z0-9_+=.@-]+)*/|ssm:/([A-Za-z0-9_.-]+/)+)$`)
	secretRE      = regexp.MustCompile(`^arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:\d{12}:secret:[A-Za-z0-9/_+=.@-]+$`)
	boundaryRE    = regexp.MustCompile(`^(arn:aws[a-z-]*:iam::(\d{12}|aws):policy/([\w+=,.@-]+/)*)?[\w+=,.@-]{1,128}$`)
	logLevels     = []string{"debug", "info", "warn", "error"}

	// queueFunctions are the functions that a queue invokes.
	queueFunctions = []string{topology.FunctionLifecycle, topology.FunctionObserver, topology.FunctionWorker}
)

// withDefaults returns p with its defaults.
func (p EngineProps) withDefaults() EngineProps {
	text := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	number := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	text(&p.Stage, StageProd)
	text(&p.FunctionsDir, filepath.Join("dist", "functions"))
	text(&p.Version, builtVersion(p.FunctionsDir))
	text(&p.Version, "dev")
	text(&p.Architecture, archARM)
	text(&p.LogLevel, "info")
	text(&p.RunbookURL, defaultRunbooks)
	if p.WarningTopic == nil {
		p.WarningTopic = p.AlarmTopic
	}
	if p.LogRetention == "" {
		p.LogRetention = awslogs.RetentionDays_ONE_WEEK
		if p.keepsData() {
			p.LogRetention = awslogs.RetentionDays_THREE_MONTHS
		}
	}
	number(&p.RequestsPerSecond, 100)
	number(&p.Burst, 200)
	number(&p.Thresholds.WakeupAge, 1800)
	number(&p.Thresholds.PackAge, 1800)
	number(&p.Thresholds.FailedSafe, 10)
	number(&p.Thresholds.FailedWakeups, 3)
	number(&p.Thresholds.TableThrottles, 10)
	number(&p.Thresholds.Errors, 5)
	number(&p.Thresholds.Throttles, 1)
	number(&p.Thresholds.LockAge, 1800)
	number(&p.Thresholds.StuckExecutions, 1)
	return p
}

// keepsData reports whether data is kept when the stack is deleted.
func (p EngineProps) keepsData() bool {
	if p.KeepData != nil {
		return *p.KeepData
	}
	return p.Stage == "" || p.Stage == StageProd
}

// concurrency returns the maximum concurrency of the mapping that invokes a function.
func (p EngineProps) concurrency(function string) int {
	if n, ok := p.Concurrency[function]; ok {
		return n
	}
	return defaultConcurrency
}

// Validate returns an error that names the first invalid field.
func (p *EngineProps) Validate() error {
	f := p.withDefaults()
	if !stageRE.MatchString(f.Stage) {
		return fmt.Errorf("stage %q: want a lower case letter, then at most 19 letters, digits and hyphens", f.Stage)
	}
	if f.NamePrefix != "" && !namePrefixRE.MatchString(f.NamePrefix) {
		return fmt.Errorf("name prefix %q: want a lower case letter, then at most 29 letters, digits and hyphens, not ending in a hyphen", f.NamePrefix)
	}
	if f.Architecture != archARM && f.Architecture != archX86 {
		return fmt.Errorf("architecture %q: want %s or %s", f.Architecture, archARM, archX86)
	}
	if !slices.Contains(logLevels, f.LogLevel) {
		return fmt.Errorf("log level %q: want one of %s", f.LogLevel, strings.Join(logLevels, ", "))
	}
	if f.Local && f.Stage == StageProd {
		return fmt.Errorf("stage %s cannot be local: a local engine has no authorisation", StageProd)
	}
	if f.PermissionsBoundary != "" && !boundaryRE.MatchString(f.PermissionsBoundary) {
		return fmt.Errorf("permissions boundary %q: want the ARN of an IAM policy, or its name in this account", f.PermissionsBoundary)
	}
	if err := cmp.Or(f.WorkerNetwork.Validate(), f.Domain.Validate(), f.validateExistingTables()); err != nil {
		return err
	}
	if f.Domain != nil && f.Local {
		return fmt.Errorf("domain %s: a local engine has none", f.Domain.Name)
	}
	if t := f.JWTAuth; t != nil && len(t.ReadScopes) > 0 && len(t.Scopes) == 0 {
		return fmt.Errorf("read scopes %v: without scopes every token may do everything", t.ReadScopes)
	}
	if t := f.JWTAuth; t != nil && (!strings.HasPrefix(t.Issuer, "https://") || len(t.Audience) == 0) {
		return fmt.Errorf("tokens of %q for %v: want the issuer's https URL and an audience", t.Issuer, t.Audience)
	}
	if f.TokenKeys != "" && !secretRE.MatchString(f.TokenKeys) {
		return fmt.Errorf("token keys %q: want the ARN of a secret in Secrets Manager, never a key", f.TokenKeys)
	}
	if f.SealedKey != "" && !kmsKeyRE.MatchString(f.SealedKey) {
		return fmt.Errorf("sealed key %q: want the ARN of a key of KMS, never a key", f.SealedKey)
	}
	if f.TokenAddress != "" && (!topology.ValidAddress(f.TokenAddress) || f.TokenKeys == "") {
		return fmt.Errorf("token address %q: want %s, and the keys of tokens", f.TokenAddress, topology.Addresses)
	}
	if err := f.validateSecrets(); err != nil {
		return err
	}
	if f.OpenAnswers && f.TokenKeys == "" {
		return fmt.Errorf("open answers: there are no token keys, so nobody has a token")
	}
	if f.OpenTriggers && f.Secrets == "" {
		return fmt.Errorf("open triggers: there are no secrets to check calls with")
	}
	if err := cmp.Or(f.Telemetry.Validate(), f.validateNumbers(), f.validateTextSizes(), validateOrigins(f.CORSOrigins), validateEventSources(f.EventSources, f.CustomerKey)); err != nil {
		return err
	}
	return f.validateFunctions(debug.ReadBuildInfo)
}

// validateSecrets checks where the secrets are. The keys of resume tokens must not be among them,
// because workers may read all of them.
func (p EngineProps) validateSecrets() error {
	if p.Secrets != "" && !secretsFromRE.MatchString(p.Secrets) {
		return fmt.Errorf("secrets %q: want secretsmanager:PREFIX/ or ssm:/PREFIX/, never a secret", p.Secrets)
	}
	prefix, ok := strings.CutPrefix(p.Secrets, "secretsmanager:")
	if _, name, _ := strings.Cut(p.TokenKeys, ":secret:"); ok && strings.HasPrefix(name, prefix) {
		return fmt.Errorf("secrets %q: the workers could read the token keys, whose name begins like that: choose another beginning", p.Secrets)
	}
	return nil
}

// validateTextSizes checks the props that become environment variables. The limits leave
// half of the environment to the names of tables and queues, including those of
// further pools.
func (p EngineProps) validateTextSizes() error {
	claim, roles := "", ""
	if p.JWTAuth != nil {
		claim, roles = p.JWTAuth.TenantClaim, p.JWTAuth.RolesClaim
	}
	return validateTexts([]sizedText{
		{field: "config", value: p.Config, maxBytes: 2048}, {field: "allow hosts", value: strings.Join(p.AllowHosts, ","), maxBytes: 1024},
		{field: "secrets", value: p.Secrets, maxBytes: 256}, {field: "sealed key", value: p.SealedKey, maxBytes: 128}, {field: "CORS origins", value: strings.Join(p.CORSOrigins, ","), maxBytes: 512}, {field: "tenant claim", value: claim, maxBytes: 128}, {field: "roles claim", value: roles, maxBytes: 128},
	})
}

// validateNumbers checks the numeric props.
func (p EngineProps) validateNumbers() error {
	for name, n := range p.Concurrency {
		if !slices.Contains(queueFunctions, name) {
			return fmt.Errorf("concurrency of %q: want one of %s", name, strings.Join(queueFunctions, ", "))
		}
		if err := validateConcurrency(n); err != nil {
			return fmt.Errorf("concurrency of %s %w", name, err)
		}
	}
	if w := p.WarmThroughput; w.Read > 0 && w.Read < 12_000 || w.Write > 0 && w.Write < 4_000 {
		return fmt.Errorf("warm throughput of %d reads and %d writes: want at least the 12000 and 4000 that a new table has", w.Read, w.Write)
	}
	for name, n := range map[string]int{
		"requests per second": p.RequestsPerSecond, "burst": p.Burst, "wake-up age": p.Thresholds.WakeupAge,
		"pack age": p.Thresholds.PackAge, "errors": p.Thresholds.Errors, "throttles": p.Thresholds.Throttles,
		"failed safe": p.Thresholds.FailedSafe, "failed wake-ups": p.Thresholds.FailedWakeups, "table throttles": p.Thresholds.TableThrottles, "lock age": p.Thresholds.LockAge, "stuck": p.Thresholds.StuckExecutions,
		"read capacity": p.Capacity.Read, "write capacity": p.Capacity.Write, "warm reads": p.WarmThroughput.Read, "warm writes": p.WarmThroughput.Write,
	} {
		if n < 0 {
			return fmt.Errorf("%s is %d: want a positive number", name, n)
		}
	}
	return nil
}
