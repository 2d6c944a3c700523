package config

import "time"

//go:generate go run ./internal/generate ../../docs/configuration.md

// Config is every setting. Durations are written in Go syntax, 90s or 12m. A key
// is the path of its yaml names, job.lease; its variable is LOCKSTEP_JOB_LEASE.
type Config struct {
	// How often the sweeper runs on a local stack; on AWS the schedule says so.
	SweepInterval time.Duration `yaml:"sweepInterval"`
	// The longest sleep between two looks at a run that waits. Default: the larger of sweepInterval and job.lease.
	Poll time.Duration `yaml:"poll"`

	Worker      Worker      `yaml:"worker"`
	Job         Job         `yaml:"job"`
	Lock        Lock        `yaml:"lock"`
	Pack        Pack        `yaml:"pack"`
	Clock       Clock       `yaml:"clock"`
	Start       Start       `yaml:"start"`
	Execution   Execution   `yaml:"run"`
	Idempotency Idempotency `yaml:"idempotency"`
	Log         Log         `yaml:"log"`
}

// Worker is how workers are kept and counted.
type Worker struct {
	// How often a polling worker reports that it lives.
	Heartbeat time.Duration `yaml:"heartbeat"`
	// Without a heartbeat for this long a polling worker is UNREACHABLE and gets no new packs.
	Unreachable time.Duration `yaml:"unreachable"`
	// Without a heartbeat for this long it is OFFLINE.
	Offline time.Duration `yaml:"offline"`
	// Without a heartbeat for this long it is forgotten.
	Forget time.Duration `yaml:"forget"`
	// Jobs that one worker process runs at a time.
	Concurrency int `yaml:"concurrency"`
	// Hosts that HTTP blocks may name: host or host:port, or loopback for this machine. Default: loopback on a local stack, nothing elsewhere.
	AllowHosts []string `yaml:"allowHosts"`
}

// Job is the time that jobs have.
type Job struct {
	// How long a worker's claim on a pack holds without a heartbeat.
	Lease time.Duration `yaml:"lease"`
	// How often a working worker renews its claim. Default: a third of job.lease.
	Heartbeat time.Duration `yaml:"heartbeat"`
	// A job that must not run twice has failed if its worker has let its lease end and no other has come for this long.
	Stuck time.Duration `yaml:"stuck"`
	// Jobs that nobody claims for this long end their run.
	Unclaimed time.Duration `yaml:"unclaimed"`
	// The time-out of one attempt, of a block and step that name none.
	Timeout time.Duration `yaml:"timeout"`
	// How often one pack may be claimed, the first time included.
	MaxTakeovers int `yaml:"maxTakeovers"`
}

// Lock is how runs wait for entities.
type Lock struct {
	// How long a run waits for its locks before it fails.
	Wait time.Duration `yaml:"wait"`
	// The number of conflicts from which a waiting run reserves the entity.
	ReserveAfter int `yaml:"reserveAfter"`
	// Calls to the tables in flight at a time for one run.
	Parallel int `yaml:"parallel"`
	// Tokens of locks are greater than this. It is raised after tables were restored, to the Unix seconds of that moment, and never lowered: docs/runbooks/restore.md. Default: none.
	MinFencingToken int `yaml:"floor"`
}

// Pack is how jobs are delivered.
type Pack struct {
	// Jobs per pack of a large step of a block that may run again.
	Size int `yaml:"size"`
	// Steps with fewer jobs than this use packs of one.
	MinJobs int `yaml:"from"`
	// How long after its dispatch a pack's message may be worked on.
	MessageLife time.Duration `yaml:"messageLife"`
	// About how many bytes of following packs one message may carry.
	ChainBytes int `yaml:"chainBytes"`
}

// Clock is how much clocks and pauses are trusted. All three shrink with a lease
// shorter than 60s.
type Clock struct {
	// How far the clocks of two machines may differ. Default: 2s.
	Skew time.Duration `yaml:"skew"`
	// How long after a lease the engine waits before it takes a pack away. Default: 5s.
	Grace time.Duration `yaml:"grace"`
	// How long before the end of its lease a worker stops. Default: 2s.
	Margin time.Duration `yaml:"margin"`
}

// Start is how runs wait before they begin.
type Start struct {
	// How long a run waits for its startWhen, of a definition that names no deadline.
	Wait time.Duration `yaml:"wait"`
}

// Execution is the limits of one run.
type Execution struct {
	// Step runs of one execution.
	MaxSteps int `yaml:"maxSteps"`
	// Entities of one execution.
	MaxEntities int `yaml:"maxEntities"`
	// Runs over up to this many entities are driven by the request that starts them.
	InlineEntities int `yaml:"inlineEntities"`
	// A run at which every look has failed for this long is ended.
	Stalled time.Duration `yaml:"stalled"`
	// How long a run is kept that has ended and is acknowledged, 720h or more; 0s is for ever. It is then left to DynamoDB to drop, so that on a local stack everything stays.
	Retention time.Duration `yaml:"retention"`
}

// Idempotency is how repeated requests are recognised.
type Idempotency struct {
	// How long an Idempotency-Key is remembered.
	Life time.Duration `yaml:"life"`
}

// Log is what is logged.
type Log struct {
	// debug, info, warn or error.
	Level string `yaml:"level"`
	// Keys whose values are kept out of the log, beside those that always are.
	Redact []string `yaml:"redact"`
}

// Default is the configuration of production.
func Default() Config {
	c := Config{
		SweepInterval: time.Minute,
		Worker:        Worker{Heartbeat: 20 * time.Second, Unreachable: 2 * time.Minute, Offline: 6 * time.Minute, Forget: 24 * time.Hour, Concurrency: 16},
		Job:           Job{Lease: time.Minute, Stuck: 12 * time.Minute, Unclaimed: time.Hour, Timeout: 30 * time.Second, MaxTakeovers: 5},
		Lock:          Lock{Wait: time.Hour, ReserveAfter: 2, Parallel: 32},
		Pack:          Pack{Size: 10, MinJobs: 101, MessageLife: 24 * time.Hour, ChainBytes: 48 << 10},
		Start:         Start{Wait: 24 * time.Hour},
		Execution:     Execution{MaxSteps: 1000, MaxEntities: 100_000, InlineEntities: 100, Stalled: time.Hour},
		Idempotency:   Idempotency{Life: 24 * time.Hour},
		Log:           Log{Level: "info"},
	}
	return c
}

// deriveDefaults fills what follows from other settings unless it is set.
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
