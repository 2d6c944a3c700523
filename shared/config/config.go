// Package config is the configuration: one documented struct with its defaults in code, read
// from a YAML file and then from LOCKSTEP_* variables.
//
// Every threshold of the engine is a key, so that a test can do in seconds what takes an
// hour in production. Unknown keys in the file are refused with their position.
// docs/configuration.md is generated from the struct.
//
//   - config.go has the settings and their defaults.
//   - load.go reads the variables, yaml.go the file.
//   - validate.go checks values.
package config

import "time"

//go:generate go run ./internal/generate ../../docs/configuration.md

// Config has every setting. Durations are in Go syntax, such as 90s or 12m. The key of a
// setting is the path of its yaml names, such as job.lease, and its variable is then
// LOCKSTEP_JOB_LEASE.
type Config struct {
	// How often the sweeper runs on a local stack. On AWS, EventBridge starts it on a schedule.
	SweepInterval time.Duration `yaml:"sweepInterval"`
	// The longest time until a waiting execution is advanced again. Default: the larger of sweepInterval and job.lease.
	Poll time.Duration `yaml:"poll"`

	// The addresses of this stage by the names that definitions and blocks call them: NAME=ADDRESS. Their hosts may be called, as if they stood in worker.allowHosts. Default: none.
	Endpoints []string `yaml:"endpoints"`

	// The regions that pools of this stage serve, at most 20: their queues are listed and redriven with the others, and the worker of a local stack serves them. On AWS, the stack sets it. Default: none.
	Regions []string `yaml:"regions"`

	Worker      Worker      `yaml:"worker"`
	Job         Job         `yaml:"job"`
	Lock        Lock        `yaml:"lock"`
	Pack        Pack        `yaml:"pack"`
	Clock       Clock       `yaml:"clock"`
	Start       Start       `yaml:"start"`
	Execution   Execution   `yaml:"run"`
	Idempotency Idempotency `yaml:"idempotency"`
	Token       Token       `yaml:"token"`
	Secrets     Secrets     `yaml:"secrets"`
	Sealed      Sealed      `yaml:"sealed"`
	Access      Access      `yaml:"access"`
	Observe     Observe     `yaml:"observe"`
	Log         Log         `yaml:"log"`
}

// Worker has the settings of workers.
type Worker struct {
	// How often a polling worker sends a heartbeat.
	Heartbeat time.Duration `yaml:"heartbeat"`
	// Without a heartbeat for this long a polling worker is UNREACHABLE and gets no new packs.
	Unreachable time.Duration `yaml:"unreachable"`
	// Without a heartbeat for this long a polling worker is OFFLINE.
	Offline time.Duration `yaml:"offline"`
	// Without a heartbeat for this long a polling worker is removed from the list.
	Forget time.Duration `yaml:"forget"`
	// Jobs that one worker process works on at a time.
	Concurrency int `yaml:"concurrency"`
	// The region for whose executions a worker process works that receives from its queue by itself. Default: for those without a region.
	Region string `yaml:"region"`
	// Hosts that HTTP blocks may name: host or host:port, or loopback for this machine. Default: loopback on a local stack, nothing elsewhere.
	AllowHosts []string `yaml:"allowHosts"`
}

// Job has the time limits of jobs.
type Job struct {
	// How long a worker's claim on a pack lasts without a heartbeat.
	Lease time.Duration `yaml:"lease"`
	// How often a worker renews its claim while it works on a pack. Default: a third of job.lease.
	Heartbeat time.Duration `yaml:"heartbeat"`
	// A job that must not be repeated fails if its worker lost its lease and no other worker claimed the pack for this long.
	Stuck time.Duration `yaml:"stuck"`
	// An execution ends if no worker claims its jobs for this long. At most half of pack.messageLife, less poll.
	Unclaimed time.Duration `yaml:"unclaimed"`
	// The timeout of one attempt, unless the step or the block has one.
	Timeout time.Duration `yaml:"timeout"`
	// How often one pack may be claimed, including the first time.
	MaxTakeovers int `yaml:"maxTakeovers"`
}

// Lock has the settings of locks.
type Lock struct {
	// How long an execution waits for its locks before it fails.
	Wait time.Duration `yaml:"wait"`
	// The number of lock conflicts at which a waiting execution reserves the entity.
	ReserveAfter int `yaml:"reserveAfter"`
	// Concurrent calls to the tables for one execution.
	Parallel int `yaml:"parallel"`
	// Tokens of locks are greater than this. After tables were restored, raise it to the current Unix time in seconds. Never lower it. See docs/runbooks/restore.md. Default: 0.
	MinFencingToken int `yaml:"floor"`
}

// Pack has the settings of packs.
type Pack struct {
	// Jobs per pack of a large step whose block may be repeated.
	Size int `yaml:"size"`
	// Steps with fewer jobs than this use packs of one.
	MinJobs int `yaml:"from"`
	// How long after its dispatch a worker may start on a pack. At least twice job.unclaimed and poll together.
	MessageLife time.Duration `yaml:"messageLife"`
	// About how many bytes of the following packs one message may carry.
	ChainBytes int `yaml:"chainBytes"`
}

// Clock has the tolerances for clocks and pauses. Their defaults shrink in proportion if
// job.lease is shorter than 60s.
type Clock struct {
	// How far the clocks of two machines may differ. Default: 2s, less if job.lease is shorter than 60s.
	Skew time.Duration `yaml:"skew"`
	// How long after the end of a lease the engine waits before it gives the pack to another worker. Default: 5s, less if job.lease is shorter than 60s.
	Grace time.Duration `yaml:"grace"`
	// How long before the end of its lease a worker stops. Default: 2s, less if job.lease is shorter than 60s.
	Margin time.Duration `yaml:"margin"`
}

// Start has the settings of executions that wait before they start.
type Start struct {
	// How long an execution waits for its startWhen, unless the definition has a deadline, and at most for its turn in the rate of its workflow.
	Wait time.Duration `yaml:"wait"`
}

// Execution has the limits of one execution.
type Execution struct {
	// Step runs of one execution.
	MaxSteps int `yaml:"maxSteps"`
	// Entities of one execution.
	MaxEntities int `yaml:"maxEntities"`
	// Executions that one execution, and those that it starts, may start in all.
	MaxDescendants int `yaml:"maxDescendants"`
	// Executions over up to this many entities are advanced within the request that starts them.
	InlineEntities int `yaml:"inlineEntities"`
	// An execution ends if every attempt to advance it has failed for this long.
	Stalled time.Duration `yaml:"stalled"`
	// How long an execution is kept after it has ended and is acknowledged: 720h or more, or 0s to keep it for ever. DynamoDB deletes it then, so a local stack keeps everything. Default: 0s.
	Retention time.Duration `yaml:"retention"`
}

// Idempotency has the settings of repeated requests.
type Idempotency struct {
	// How long an Idempotency-Key is kept.
	Life time.Duration `yaml:"life"`
}

// Token has the settings of resume tokens.
type Token struct {
	// Where the keys of resume tokens are: the ARN of a secret in Secrets Manager, or file: and a path. See docs/deploying.md. Default: a file with a random key on a local stack, nothing elsewhere, so that no token can be made.
	Keys string `yaml:"keys"`
	// The address at which people reach this service in a browser, https://HOST: links with tokens, such as ${callback.url}, begin with it. On AWS the stack sets it where OpenAnswers is on, unless TokenAddress says another one. Default: its own on a local stack, nothing elsewhere, so that there are no links.
	Address string `yaml:"address"`
}

// Secrets has the settings of the secrets that jobs are called with.
type Secrets struct {
	// Where the secrets are that definitions and blocks refer to: secretsmanager: and the beginning of their names, ssm: and the beginning of the names of parameters, or file: and the path of a file with an object of texts by name. Behind the beginning stand the tenant, / and the name. See docs/definitions.md. Default: nowhere, so that jobs with secrets fail.
	From string `yaml:"from"`
}

// Sealed has the settings of sealed parameters.
type Sealed struct {
	// The key under which parameters with x-sealed are sealed: the ARN of a key of KMS, or file: and the path of a file with 64 hexadecimal digits. See docs/definitions.md. Default: a file with a random key on a local stack, nothing elsewhere, so that no such parameter is taken.
	Key string `yaml:"key"`
}

// Observe has the settings of those who are told of the events of executions.
type Observe struct {
	// Who is told of failures, of every tenant, in a few lines with the entities that need a look: the URL of a webhook that takes {"text": ...}, as chats have it, on one of worker.allowHosts, or the ARN of a topic of SNS. Default: nobody.
	Alerts string `yaml:"alerts"`
	// For how long a process may not know of a new subscription. A subscription is told of events from then on.
	Age time.Duration `yaml:"age"`
	// Whether the ends of executions are counted by workflow, for `lockstep metrics`. Every execution is observed then, which is about $5 for a million of them: see docs/cost.md.
	Metrics bool `yaml:"metrics"`
}

// Access says who has which role. Each entry is the name of a role of the caller, or actor: and
// the name of a caller, which may end with *.
type Access struct {
	// Who reads: names of roles in the caller's claim, or actor: and the name of a caller, with * at its end for all that begin like that. See docs/api.md. Default: if nobody has any role here, everybody who is authenticated may do everything.
	Viewer []string `yaml:"viewer"`
	// Who starts and changes executions, and changes the inventory.
	Operator []string `yaml:"operator"`
	// Who answers what executions ask.
	Approver []string `yaml:"approver"`
	// Who may do everything. Required if anybody has a role here.
	Admin []string `yaml:"admin"`
	// Which workers may poll for jobs and register blocks.
	Worker []string `yaml:"worker"`
}

// Log has the settings of logging.
type Log struct {
	// The lowest level that is logged: debug, info, warn or error.
	Level string `yaml:"level"`
	// Further keys whose values are kept out of the log. Default: none.
	Redact []string `yaml:"redact"`
}

// Default is the configuration for production.
func Default() Config {
	c := Config{
		SweepInterval: time.Minute,
		Worker:        Worker{Heartbeat: 20 * time.Second, Unreachable: 2 * time.Minute, Offline: 6 * time.Minute, Forget: 24 * time.Hour, Concurrency: 16},
		Job:           Job{Lease: time.Minute, Stuck: 12 * time.Minute, Unclaimed: time.Hour, Timeout: 30 * time.Second, MaxTakeovers: 5},
		Lock:          Lock{Wait: time.Hour, ReserveAfter: 2, Parallel: 32},
		Pack:          Pack{Size: 10, MinJobs: 101, MessageLife: 24 * time.Hour, ChainBytes: 48 << 10},
		Start:         Start{Wait: 24 * time.Hour},
		Execution:     Execution{MaxSteps: 1000, MaxEntities: 100_000, MaxDescendants: 1000, InlineEntities: 100, Stalled: time.Hour},
		Idempotency:   Idempotency{Life: 24 * time.Hour},
		Observe:       Observe{Age: 30 * time.Second},
		Log:           Log{Level: "info"},
	}
	return c
}

// deriveDefaults sets the settings whose defaults follow from others, unless they are set.
func (c *Config) deriveDefaults() {
	if c.Poll == 0 {
		c.Poll = max(c.SweepInterval, c.Job.Lease)
	}
	if c.Job.Heartbeat == 0 {
		c.Job.Heartbeat = c.Job.Lease / 3
	}
	share := min(1, float64(c.Job.Lease)/float64(time.Minute))
	for _, d := range []struct {
		setting *time.Duration
		full    time.Duration
	}{{&c.Clock.Skew, 2 * time.Second}, {&c.Clock.Grace, 5 * time.Second}, {&c.Clock.Margin, 2 * time.Second}} {
		if *d.setting == 0 {
			*d.setting = time.Duration(share * float64(d.full)).Round(time.Millisecond)
		}
	}
}
