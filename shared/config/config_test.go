package config_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/config"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func TestLoad_Defaults(t *testing.T) {
	c, err := config.Load("", nil)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(c.SweepInterval, c.Poll, c.Job.Heartbeat, c.Job.Stuck, c.Job.Unclaimed, c.Clock, c.Pack.MessageLife, c.Lock.Wait)
	if want := "1m0s 1m0s 20s 12m0s 1h0m0s {2s 5s 2s} 24h0m0s 1h0m0s"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The setting token.keys says where keys are. A key itself is refused, and not shown.
func TestParse_TokenKeysAreNoKeys(t *testing.T) {
	for value, valid := range map[string]bool{
		"": true, "file:/run/keys.json": true, "arn:aws:secretsmanager:eu-west-1:123456789012:secret:keys-AbCdEf": true,
		`{"current":"a","keys":{"a":"c2VjcmV0"}}`: false, "c2VjcmV0": false, "arn:aws:ssm:eu-west-1:123456789012:parameter/keys": false,
	} {
		_, err := config.Parse(nil, []string{"LOCKSTEP_TOKEN_KEYS=" + value})
		if (err == nil) != valid || err != nil && strings.Contains(fmt.Sprint(err), "c2VjcmV0") {
			t.Errorf("%s: %v", value, err)
		}
	}
}

// Links begin with token.address, so it is one of https, or of this machine, and nothing else.
func TestParse_TokenAddress(t *testing.T) {
	for value, valid := range map[string]bool{
		"": true, "https://lockstep.example": true, "https://lockstep.example:8443/here/": true, "http://localhost:3030": true, "http://127.0.0.1:1": true,
		"http://lockstep.example": false, "lockstep.example": false, "https://": false, "https://a?b": false, "https://a#b": false, "https://me:secret@a": false, "javascript:alert(1)": false,
		"https://" + strings.Repeat("a", 200): false,
	} {
		if _, err := config.Parse(nil, []string{"LOCKSTEP_TOKEN_ADDRESS=" + value}); (err == nil) != valid {
			t.Errorf("%s: %v", value, err)
		}
	}
}

// TestParse_ShortLeaseShrinksClockTolerances: the defaults of the clock tolerances shrink with the lease.
func TestParse_ShortLeaseShrinksClockTolerances(t *testing.T) {
	c, err := config.Parse([]byte("sweepInterval: 1s\njob: {lease: 3s}\nclock: {margin: 1s}\n"), []string{"LOCKSTEP_JOB_UNCLAIMED=20s", "LOCKSTEP_WORKER_ALLOW_HOSTS=a,b:80", "OTHER=1"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Clock != (config.Clock{Skew: 100 * time.Millisecond, Grace: 250 * time.Millisecond, Margin: time.Second}) || c.Poll != 3*time.Second {
		t.Errorf("%+v, poll %s", c.Clock, c.Poll)
	}
	if c.Job.Unclaimed != 20*time.Second || len(c.Worker.AllowHosts) != 2 {
		t.Errorf("variables are not read: %+v", c)
	}
}

// TestParse_RefusesInvalidSettings: every mistake is reported with its position.
func TestParse_RefusesInvalidSettings(t *testing.T) {
	for source, want := range map[string]string{
		"jobs: {}\n":                   "1 jobs unknown_field",
		"job:\n  leese: 3s\n":          "2 job.leese unknown_field",
		"job: {lease: soon}\n":         "1 job.lease value",
		"job: {lease: 1s\n":            "1 { syntax",
		"job: {heartbeat: 50s}\n":      "1 job.heartbeat range",
		"pack: {size: 0}\n":            "1 pack.size range",
		"job: {unclaimed: 12h}\n":      "1 job.unclaimed range",
		"pack: {messageLife: 2h}\n":    "1 pack.messageLife range",
		"job: {maxTakeovers: 100}\n":   "1 job.maxTakeovers range",
		"log: {level: loud}\n":         "1 log.level range",
		"run: {retention: 696h}\n":     "1 run.retention range",
		"worker: {unreachable: 10s}\n": "1 worker.unreachable range",

		"access: {admin: [Network Admins]}\n": "1 access.admin range",
		"access: {admin: [\"a,b\"]}\n":        "1 access.admin range",
		"access: {admin: [\"actor: \"]}\n":    "1 access.admin range",
	} {
		_, err := config.Parse([]byte(source), nil)
		var e *workflow.Error
		if !errors.As(err, &e) || e.Code != workflow.CodeInvalid {
			t.Errorf("%q: got %v", source, err)
			continue
		}
		i := e.Issues[0]
		if got := fmt.Sprintf("%d %s %s", i.Line, i.Path, i.Code); got != want {
			t.Errorf("%q: got %q, want %q (%s)", source, got, want, i.Message)
		}
	}
	if _, err := config.Parse(nil, []string{"LOCKSTEP_JOB_LEASE=soon"}); err == nil {
		t.Error("an invalid variable is accepted")
	}
}

// TestParse_ReportsEveryIssue: all issues are reported, each with its key, its line and an example. If two
// settings contradict each other, the one that was set is reported.
func TestParse_ReportsEveryIssue(t *testing.T) {
	for name, c := range map[string]struct {
		source string
		env    []string
		want   []string
	}{
		"several": {
			source: "lock:\n  wiat: 5m\n  wait: 90\njob: 60s\nworker:\n  allowHosts: {a: b}\n  concurrency: many\nrun: [1]\n",
			want: []string{
				"2:3 lock.wiat: there is no such key; lock has wait, reserveAfter, parallel, floor",
				`3:9 lock.wait: want a duration such as 90s, not "90"`,
				`4:6 job: want keys, such as "job: {lease: ...}"`,
				"6:15 worker.allowHosts: want a list such as [loopback]",
				`7:16 worker.concurrency: want a whole number, not "many"`,
				`8:6 run: want keys, such as "run: {maxSteps: ...}"`,
			},
		},
		"only one is set": {
			source: "worker:\n  heartbeat: 5m\n",
			want:   []string{"2:3 worker.heartbeat: want less than worker.unreachable, 2m"},
		},
		"jobs are given up before their messages are sent anew": {
			source: "pack:\n  messageLife: 4h\njob:\n  unclaimed: 2h\n",
			want:   []string{"4:3 job.unclaimed: want at most half of pack.messageLife less poll, 119m"},
		},
		"a variable": {
			source: "job: {lease: 60s}\n",
			env:    []string{"LOCKSTEP_JOB_LEASE=1ms", "LOCKSTEP_PACK_SIZE=0"},
			want:   []string{"LOCKSTEP_JOB_LEASE: want at least 10ms, such as 60s", "LOCKSTEP_PACK_SIZE: want 1 to 100"},
		},
	} {
		_, err := config.Parse([]byte(c.source), c.env)
		var e *workflow.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, i := range e.Issues {
			got = append(got, i.String())
		}
		for _, want := range c.want {
			if !slices.Contains(got, want) {
				t.Errorf("%s: no issue\n%s\nin\n%s", name, want, strings.Join(got, "\n"))
			}
		}
		if name != "a variable" && len(got) != len(c.want) {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// A variable that is almost one of the product's is refused with the name that was meant. Any
// other is somebody else's.
func TestParse_RefusesMisspelledVariables(t *testing.T) {
	for name, want := range map[string]string{
		"LOCKSTEP_JOB_LEASES": "LOCKSTEP_JOB_LEASE", "LOCKSTEP_SWEEPINTERVALL": "LOCKSTEP_SWEEP_INTERVAL", "LOCKSTEP_TENNANT": "LOCKSTEP_TENANT", "LOCKSTEP_ULR": "",
		"LOCKSTEP_URLL": "LOCKSTEP_URL", "LOCKSTEP_LOCALSTACK_CACHE": "", "LOCKSTEP_TEST_SENDER": "", "LOCKSTEP_LOCALSTACK": "", "LOCKSTEPS": "", "JOB_LEASES": "",
		"LOCKSTEP_URL": "", "LOCKSTEP_DEPLOYMENT": "", "LOCKSTEP_LOG_LEVEL": "",
	} {
		issues := config.MisspelledVariables([]string{name + "=1"})
		if want == "" && len(issues) > 0 || want != "" && (len(issues) != 1 || issues[0].Path != name || !strings.Contains(issues[0].Message, want+"?")) {
			t.Errorf("%s: %v", name, issues)
		}
	}
	if _, err := config.Parse(nil, []string{"LOCKSTEP_JOB_LEASES=1m"}); !workflow.Is(err, workflow.CodeInvalid) {
		t.Errorf("%v", err)
	}
}

// A setting that is on or off is read from the file and from a variable.
func TestParse_ReadsWhatIsOnOrOff(t *testing.T) {
	for file, want := range map[string]bool{"": false, "observe: {metrics: true}": true, "observe: {metrics: false}": false} {
		if c, err := config.Parse([]byte(file), nil); err != nil || c.Observe.Metrics != want {
			t.Errorf("%q: %v, %v", file, c.Observe.Metrics, err)
		}
	}
	if c, err := config.Parse(nil, []string{"LOCKSTEP_OBSERVE_METRICS=true"}); err != nil || !c.Observe.Metrics {
		t.Errorf("by a variable: %v, %v", c.Observe.Metrics, err)
	}
	if _, err := config.Parse([]byte("observe: {metrics: often}"), nil); err == nil {
		t.Error("often is accepted")
	}
}
