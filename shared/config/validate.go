package config

import (
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maxMinFencingToken is well below the ten digits that a fence has for a token.
const maxMinFencingToken = 9_000_000_000

var keyARN = regexp.MustCompile(`^arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[A-Za-z0-9-]+$`)

var topicARN = regexp.MustCompile(`^arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]+$`)

var secretARN = regexp.MustCompile(`^arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:\d{12}:secret:[A-Za-z0-9/_+=.@-]+$`)

var secretsFrom = regexp.MustCompile(`^(file:.+|secretsmanager:[A-Za-z0-9_+=.@-]+(/[A-Za-z0-9_+=.@-]+)*/|ssm:/([A-Za-z0-9_.-]+/)+)$`)

// Validate checks all settings. The error lists every invalid one.
func (c Config) Validate() error {
	return workflow.Invalid("the configuration is not valid", c.check(func(string) bool { return true }))
}

// minRetention is longer than any message about an execution can be in a queue. A pack must
// exist as long as its message.
const minRetention = 30 * 24 * time.Hour

// check lists invalid settings in the order of their keys. If two settings contradict each
// other, it reports the one that was set.
func (c *Config) check(isSet func(key string) bool) []workflow.Issue {
	var issues []workflow.Issue
	require := func(ok bool, path, message string) {
		if !ok {
			issues = append(issues, workflow.Issue{Path: path, Code: "range", Message: message})
		}
	}
	for path, d := range map[string]time.Duration{
		"sweepInterval": c.SweepInterval, "poll": c.Poll, "worker.heartbeat": c.Worker.Heartbeat,
		"job.lease": c.Job.Lease, "job.heartbeat": c.Job.Heartbeat, "job.stuck": c.Job.Stuck,
		"job.unclaimed": c.Job.Unclaimed, "job.timeout": c.Job.Timeout, "lock.wait": c.Lock.Wait, "start.wait": c.Start.Wait, "run.stalled": c.Execution.Stalled,
		"pack.messageLife": c.Pack.MessageLife, "idempotency.life": c.Idempotency.Life, "observe.age": c.Observe.Age,
	} {
		require(d >= 10*time.Millisecond, path, "want at least 10ms, such as 60s")
	}
	for path, d := range map[string]time.Duration{"clock.skew": c.Clock.Skew, "clock.grace": c.Clock.Grace, "clock.margin": c.Clock.Margin} {
		require(d >= 0, path, "want 0s or more")
	}
	require(c.Execution.Retention == 0 || c.Execution.Retention >= minRetention, "run.retention", "want 0s to keep executions for ever, or at least 720h")
	requirePair := func(ok bool, path, message, other, otherwise string) {
		if !isSet(path) && isSet(other) {
			path, message = other, otherwise
		}
		require(ok, path, message)
	}
	requirePair(2*c.Job.Heartbeat <= c.Job.Lease, "job.heartbeat", "want at most half of job.lease, "+shortDuration(c.Job.Lease), "job.lease", "want at least twice job.heartbeat, "+shortDuration(c.Job.Heartbeat))
	requirePair(c.Clock.Margin < c.Job.Lease/2, "clock.margin", "want less than half of job.lease, "+shortDuration(c.Job.Lease), "job.lease", "want more than twice clock.margin, "+shortDuration(c.Clock.Margin))
	longest, shortest := c.Pack.MessageLife/2-c.Poll, 2*(c.Job.Unclaimed+c.Poll)
	requirePair(c.Job.Unclaimed <= longest, "job.unclaimed", "want at most half of pack.messageLife less poll, "+shortDuration(longest), "pack.messageLife", "want at least twice job.unclaimed and poll, "+shortDuration(shortest))
	require(c.Job.Timeout <= 14*time.Minute, "job.timeout", "want at most 14m")
	ascending := []struct {
		path string
		d    time.Duration
	}{
		{"worker.heartbeat", c.Worker.Heartbeat}, {"worker.unreachable", c.Worker.Unreachable},
		{"worker.offline", c.Worker.Offline}, {"worker.forget", c.Worker.Forget},
	}
	for i := 1; i < len(ascending); i++ {
		less, more := ascending[i-1], ascending[i]
		requirePair(more.d > less.d, more.path, "want more than "+less.path+", "+shortDuration(less.d), less.path, "want less than "+more.path+", "+shortDuration(more.d))
	}
	for path, n := range map[string][3]int{
		"worker.concurrency": {c.Worker.Concurrency, 1, 1000},
		"job.maxTakeovers":   {c.Job.MaxTakeovers, 1, workflow.MaxPackToken},
		"lock.reserveAfter":  {c.Lock.ReserveAfter, 1, 1000},
		"lock.parallel":      {c.Lock.Parallel, 1, 256},
		"lock.floor":         {c.Lock.MinFencingToken, 0, maxMinFencingToken},
		"pack.size":          {c.Pack.Size, 1, 100},
		"pack.from":          {c.Pack.MinJobs, 1, 1_000_000},
		"pack.chainBytes":    {c.Pack.ChainBytes, 0, 512 << 10},
		"run.maxSteps":       {c.Execution.MaxSteps, 1, 9999},
		"run.maxEntities":    {c.Execution.MaxEntities, 1, 1_000_000},
		"run.maxDescendants": {c.Execution.MaxDescendants, 1, 5000},
		"run.inlineEntities": {c.Execution.InlineEntities, 0, 10_000},
	} {
		if n[0] < n[1] || n[0] > n[2] {
			issues = append(issues, workflow.Issue{Path: path, Code: "range", Message: fmt.Sprintf("want %d to %d", n[1], n[2])})
		}
	}
	if keys := c.Token.Keys; keys != "" && !strings.HasPrefix(keys, "file:") && !secretARN.MatchString(keys) {
		issues = append(issues, workflow.Issue{Path: "token.keys", Code: "pattern", Message: "want the ARN of a secret, arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME, or file:PATH, and never a key itself"})
	}
	if to := c.Token.Address; to != "" && !topology.ValidAddress(to) {
		issues = append(issues, workflow.Issue{Path: "token.address", Code: "pattern", Message: "want " + topology.Addresses})
	}
	if _, err := workflow.ParseEndpoints(c.Endpoints); err != nil {
		issues = append(issues, workflow.Issue{Path: "endpoints", Code: "value", Message: err.Error()})
	}
	for path, names := range map[string][]string{"regions": c.Regions, "worker.region": {c.Worker.Region}} {
		for _, name := range names {
			if name != "" && !topology.ValidRegion(name) || name == "" && path == "regions" || len(names) > topology.MaxRegions {
				issues = append(issues, workflow.Issue{Path: path, Code: "pattern", Message: fmt.Sprintf("want %s, and at most %d of them", topology.RegionNames, topology.MaxRegions)})
				break
			}
		}
	}
	if from := c.Secrets.From; from != "" && !secretsFrom.MatchString(from) {
		issues = append(issues, workflow.Issue{Path: "secrets.from", Code: "pattern", Message: "want secretsmanager:PREFIX/, ssm:/PREFIX/ or file:PATH, and never a secret itself"})
	}
	if key := c.Sealed.Key; key != "" && !strings.HasPrefix(key, "file:") && !keyARN.MatchString(key) {
		issues = append(issues, workflow.Issue{Path: "sealed.key", Code: "pattern", Message: "want the ARN of a key, arn:aws:kms:REGION:ACCOUNT:key/ID, or file:PATH, and never a key itself"})
	}
	if to := c.Observe.Alerts; to != "" && !strings.HasPrefix(to, "https://") && !strings.HasPrefix(to, "http://") && !topicARN.MatchString(to) {
		issues = append(issues, workflow.Issue{Path: "observe.alerts", Code: "pattern", Message: "want the URL of a webhook, https://..., or the ARN of a topic, arn:aws:sns:REGION:ACCOUNT:NAME"})
	}
	for path, names := range map[string][]string{
		"access.viewer": c.Access.Viewer, "access.operator": c.Access.Operator, "access.approver": c.Access.Approver, "access.admin": c.Access.Admin, "access.worker": c.Access.Worker,
	} {
		require(!slices.ContainsFunc(names, invalidAccess), path, "want names of roles without spaces and commas, or actor:NAME: a name with one is no role, whoever has it in the claim")
		require(len(names) == 0 || len(c.Access.Admin) > 0, path, "nobody could publish anything: access.admin has to name somebody too")
	}
	var level slog.Level
	require(level.UnmarshalText([]byte(strings.ToUpper(c.Log.Level))) == nil, "log.level", "want debug, info, warn or error")
	slices.SortStableFunc(issues, func(a, b workflow.Issue) int { return strings.Compare(a.Path, b.Path) })
	return issues
}

// invalidAccess reports whether an entry of access can give nobody a role.
func invalidAccess(name string) bool {
	if actor, ok := strings.CutPrefix(name, "actor:"); ok {
		return strings.TrimSpace(actor) == ""
	}
	return name == "" || strings.ContainsFunc(name, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}
