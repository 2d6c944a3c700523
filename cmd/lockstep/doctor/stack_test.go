package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/smithy-go"

	"github.com/lockstep-run/lockstep/cmd/lockstep/doctor/aws"
	"github.com/lockstep-run/lockstep/shared/topology"
)

var testTime = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// fakeAWS is an account with one healthy stack, which tests change.
type fakeAWS struct {
	stack       aws.Stack
	tables      map[string]aws.Table
	queues      map[string]aws.Queue
	functions   map[string]aws.Function
	loops       map[string]bool
	mappings    map[string]aws.Mapping
	rules       map[string]aws.Rule
	alarms      map[string]aws.Alarm
	invocations int
	concurrency int

	reserved map[string]int

	deniedCall  string // this call answers AccessDenied
	failingCall string // this call fails with another error
}

var errNotFound = &smithy.GenericAPIError{Code: "ResourceNotFoundException", Message: "not found"}

func lookup[T any](s *fakeAWS, call string, all map[string]T, name string) (T, error) {
	v, ok := all[name]
	switch {
	case s.failingCall == call:
		return v, &smithy.GenericAPIError{Code: "ExpiredTokenException", Message: "the session has expired"}
	case s.deniedCall == call:
		return v, &smithy.GenericAPIError{Code: "AccessDeniedException", Message: "not allowed"}
	case !ok:
		return v, errNotFound
	}
	return v, nil
}

func (s *fakeAWS) Stack(_ context.Context, name string) (aws.Stack, error) {
	if s.deniedCall == "stack" {
		return aws.Stack{}, &smithy.GenericAPIError{Code: "AccessDenied", Message: "not allowed"}
	}
	if name != s.stack.Name {
		return aws.Stack{}, aws.ErrStackNotFound
	}
	return s.stack, nil
}
func (s *fakeAWS) Table(_ context.Context, name string) (aws.Table, error) {
	return lookup(s, "table", s.tables, name)
}
func (s *fakeAWS) Queue(_ context.Context, url string) (aws.Queue, error) {
	return lookup(s, "queue", s.queues, url)
}
func (s *fakeAWS) Function(_ context.Context, name string) (aws.Function, error) {
	return lookup(s, "function", s.functions, lastSegment(name))
}
func (s *fakeAWS) AllowsRecursion(_ context.Context, name string) (bool, error) {
	return lookup(s, "loops", s.loops, name)
}
func (s *fakeAWS) Concurrency(_ context.Context) (int, error) {
	return lookup(s, "concurrency", map[string]int{"": s.concurrency}, "")
}

func (s *fakeAWS) Mapping(_ context.Context, id string) (aws.Mapping, error) {
	return lookup(s, "mapping", s.mappings, id)
}
func (s *fakeAWS) ReservedConcurrency(_ context.Context, name string) (int, bool, error) {
	n, reserved := s.reserved[name]
	_, err := lookup(s, "reserved", s.functions, name)
	return n, reserved, err
}
func (s *fakeAWS) Mappings(_ context.Context, queue string) (all []aws.Mapping, err error) {
	if _, err := lookup(s, "mappings", map[string]int{"": 0}, ""); err != nil {
		return nil, err
	}
	for _, id := range slices.Sorted(maps.Keys(s.mappings)) {
		if m := s.mappings[id]; m.QueueARN == queue {
			m.ID = id
			all = append(all, m)
		}
	}
	return all, nil
}
func (s *fakeAWS) Rule(_ context.Context, name string) (aws.Rule, error) {
	return lookup(s, "rule", s.rules, name)
}
func (s *fakeAWS) Alarms(_ context.Context, names []string) ([]aws.Alarm, error) {
	if _, err := lookup(s, "alarms", map[string]int{"": 0}, ""); err != nil {
		return nil, err
	}
	var all []aws.Alarm
	for _, name := range names {
		if a, ok := s.alarms[name]; ok {
			all = append(all, a)
		}
	}
	return all, nil
}
func (s *fakeAWS) Invocations(_ context.Context, function string, from, to time.Time) (int, error) {
	if function != "sweeper" || !to.Equal(testTime) || to.Sub(from) != sweepWindow {
		return 0, fmt.Errorf("unexpected arguments: %s from %s to %s", function, from, to)
	}
	return s.invocations, nil
}

func (s *fakeAWS) editFunction(name string, change func(*aws.Function)) {
	f := s.functions[name]
	change(&f)
	s.functions[name] = f
}

func healthyAWS() *fakeAWS {
	s := &fakeAWS{
		stack:  aws.Stack{Name: "S", Status: "CREATE_COMPLETE", ChangedAt: testTime.Add(-time.Hour), Outputs: map[string]string{"EngineApiUrl": "https://x.test"}},
		tables: map[string]aws.Table{}, queues: map[string]aws.Queue{}, functions: map[string]aws.Function{}, loops: map[string]bool{},
		mappings: map[string]aws.Mapping{}, reserved: map[string]int{}, rules: map[string]aws.Rule{}, alarms: map[string]aws.Alarm{}, invocations: 10, concurrency: 1000,
	}
	add := func(kind, name, id string) {
		s.stack.Resources = append(s.stack.Resources, aws.Resource{Type: kind, LogicalID: name, PhysicalID: id})
	}
	for _, role := range topology.Tables {
		indexes := map[string]string{}
		for _, i := range topology.Indexes[role] {
			indexes[i.Name] = "ACTIVE"
		}
		s.tables["t-"+role] = aws.Table{Status: "ACTIVE", Indexes: indexes, PointInTimeRecovery: true, TTLAttribute: topology.AttrTTL}
		add(aws.TypeTable, "Table"+role, "t-"+role)
	}
	queue := func(name string, visibility, receives int) {
		dead := aws.Queue{URL: "https://q/1/" + name + "-dlq", ARN: "arn:q:" + name + "-dlq", Name: name + "-dlq", RetentionPeriod: 14 * 24 * 3600}
		s.queues[dead.URL] = dead
		add(aws.TypeQueue, name+"Dlq12", dead.URL)
		if visibility > 0 {
			url := "https://q/1/" + name
			s.queues[url] = aws.Queue{URL: url, ARN: "arn:q:" + name, Name: name, VisibilityTimeout: visibility, DeadLetterARN: dead.ARN, MaxReceiveCount: receives}
			add(aws.TypeQueue, name+"Queue12", url)
		}
	}
	queue("lifecycle", 720, 10)
	queue("jobs-default", 5400, 20)
	queue("jobs-polled", 5400, 20)
	queue("schedules", 0, 0)
	for _, name := range topology.Functions {
		env := map[string]string{topology.EnvQueueLifecycle: "https://q/1/lifecycle"}
		for _, role := range topology.Tables {
			if len(topology.RightsFor(name, role)) > 0 {
				env[topology.TableEnv[role]] = "t-" + role
			}
		}
		if name == topology.FunctionAPI {
			env[topology.EnvQueueJobsURLs] = `{"default":"https://q/1/jobs-default"}`
			env[topology.EnvQueueJobsPrefix] = "jobs-" // under which jobs-polled is found
		}
		s.functions[name] = aws.Function{Name: name, ARN: "arn:f:" + name, State: "Active", LastUpdateStatus: "Successful", Timeout: topology.FunctionTimeoutSeconds[name], Environment: env}
		s.loops[name] = true
		add(aws.TypeFunction, name, name)
	}
	s.functions["other"] = aws.Function{Name: "other", State: "Failed"}
	add(aws.TypeFunction, "Other", "other")
	s.mappings["m1"] = aws.Mapping{State: "Enabled", QueueARN: "arn:q:lifecycle", FunctionARN: "arn:f:lifecycle", ReportsBatchItemFailures: true, MaxConcurrency: 50}
	s.mappings["m2"] = aws.Mapping{State: "Enabled", QueueARN: "arn:q:jobs-default", FunctionARN: "arn:f:worker", ReportsBatchItemFailures: true, MaxConcurrency: 50}
	add(aws.TypeMapping, "M1", "m1")
	add(aws.TypeMapping, "M2", "m2")
	s.rules["sweep"] = aws.Rule{Enabled: true, Schedule: "rate(1 minute)", Targets: []string{"arn:f:sweeper:live"}}
	add(aws.TypeRule, "Rule", "sweep")
	s.alarms["a1"] = aws.Alarm{Name: "a1", State: "OK", HasActions: true}
	add(aws.TypeAlarm, "A1", "a1")
	return s
}

func checkFake(s *fakeAWS) *Report {
	r := &Report{}
	checker := &stackCheck{AWS: s, report: r, now: func() time.Time { return testTime }}
	checker.checkAll(context.Background(), "S")
	return r
}

func TestStackCheck_PassesHealthyStack(t *testing.T) {
	s := healthyAWS()
	r := checkFake(s)
	checks := map[string]bool{}
	for _, f := range r.Findings {
		if f.Level != OK {
			t.Errorf("%+v", f)
		}
		checks[f.Check] = true
	}
	for _, want := range []string{"stack", "functions", "tables", "mappings", "concurrency", "queues", "dead-letter queues", "schedule", "alarms"} {
		if !checks[want] {
			t.Errorf("no finding for %s", want)
		}
	}
	checker := &stackCheck{AWS: s, report: &Report{}, now: time.Now}
	if url := checker.checkAll(t.Context(), "S"); url != "https://x.test" {
		t.Errorf("the address is %q", url)
	}
}

// Each defect of a stack is found by its own check, with what to do next, and by no
// other check.
func TestStackCheck_FindsEachDefect(t *testing.T) {
	queue := func(s *fakeAWS, url string, change func(*aws.Queue)) {
		v := s.queues[url]
		change(&v)
		s.queues[url] = v
	}
	table := func(s *fakeAWS, name string, change func(*aws.Table)) {
		v := s.tables[name]
		change(&v)
		s.tables[name] = v
	}
	for _, c := range []struct {
		name    string
		change  func(s *fakeAWS)
		check   string
		level   Level
		message string
	}{
		{"an account that is new", func(s *fakeAWS) { s.concurrency = 10 }, "concurrency", Failure, "10 invocations at a time, and the API alone needs 20"},
		{"an account with too little for all", func(s *fakeAWS) { s.concurrency = 119 }, "concurrency", Warning, "may take 120"},
		{"a mapping without a limit", func(s *fakeAWS) {
			m := s.mappings["m2"]
			m.MaxConcurrency = 0
			s.mappings["m2"] = m
		}, "concurrency", Warning, "nothing limits how many invocations jobs-default takes"},
		{"no such stack", func(s *fakeAWS) { s.stack.Name = "T" }, "stack", Failure, "no stack S"},
		{"an update in progress of the stack", func(s *fakeAWS) { s.stack.Status = "UPDATE_IN_PROGRESS" }, "stack", Warning, "UPDATE_IN_PROGRESS"},
		{"an update that was rolled back", func(s *fakeAWS) { s.stack.Status, s.stack.Reason = "UPDATE_ROLLBACK_COMPLETE", "quota" }, "stack", Warning, "rolled back: quota"},
		{"an update whose rollback failed", func(s *fakeAWS) { s.stack.Status = "UPDATE_ROLLBACK_FAILED" }, "stack", Failure, "UPDATE_ROLLBACK_FAILED"},
		{"a creation that was rolled back", func(s *fakeAWS) { s.stack.Status = "ROLLBACK_COMPLETE" }, "stack", Failure, "ROLLBACK_COMPLETE"},
		{"a stack without an engine", func(s *fakeAWS) {
			for _, name := range topology.Functions {
				s.editFunction(name, func(f *aws.Function) { f.Environment = nil })
			}
		}, "functions", Failure, "no function of S"},
		{"a missing function", func(s *fakeAWS) { delete(s.functions, "other") }, "functions", Failure, "the function other of the stack does not exist"},
		{"a function that failed", func(s *fakeAWS) {
			s.editFunction("api", func(f *aws.Function) { f.State, f.StatusReason = "Failed", "its role is gone" })
		}, "functions", Failure, "its role is gone"},
		{"an update that failed", func(s *fakeAWS) { s.editFunction("api", func(f *aws.Function) { f.LastUpdateStatus = "Failed" }) }, "functions", Failure, "api"},
		{"an update in progress", func(s *fakeAWS) { s.editFunction("api", func(f *aws.Function) { f.LastUpdateStatus = "InProgress" }) }, "functions", Warning, "api"},
		{"recursion denied", func(s *fakeAWS) { s.loops["worker"] = false }, "functions", Failure, "would stop worker"},
		{"a missing table", func(s *fakeAWS) { delete(s.tables, "t-locks") }, "tables", Failure, "t-locks (locks) does not exist"},
		{"a table without its encryption key", func(s *fakeAWS) {
			table(s, "t-locks", func(t *aws.Table) { t.Status = "INACCESSIBLE_ENCRYPTION_CREDENTIALS" })
		}, "tables", Failure, "INACCESSIBLE"},
		{"a missing index", func(s *fakeAWS) { table(s, "t-jobs", func(t *aws.Table) { t.Indexes = nil }) }, "tables", Failure, "workers-due of t-jobs is missing"},
		{"no point-in-time recovery", func(s *fakeAWS) { table(s, "t-jobs", func(t *aws.Table) { t.PointInTimeRecovery = false }) }, "tables", Failure, "recovery is off: t-jobs"},
		{"no expiry", func(s *fakeAWS) { table(s, "t-jobs", func(t *aws.Table) { t.TTLAttribute = "" }) }, "tables", Failure, "in t-jobs"},
		{"a table that no function knows", func(s *fakeAWS) {
			for _, name := range topology.Functions {
				s.editFunction(name, func(f *aws.Function) { delete(f.Environment, topology.TableEnv[topology.TableRegistry]) })
			}
		}, "tables", Failure, "no function has the name of the table registry"},
		{"a missing queue", func(s *fakeAWS) { delete(s.queues, "https://q/1/schedules-dlq") }, "queues", Failure, "schedules-dlq does not exist"},
		{"a short visibility timeout", func(s *fakeAWS) {
			queue(s, "https://q/1/jobs-default", func(q *aws.Queue) { q.VisibilityTimeout = 5399 })
		}, "queues", Failure, "want 5400 s"},
		{"no dead-letter queue", func(s *fakeAWS) { queue(s, "https://q/1/jobs-polled", func(q *aws.Queue) { q.DeadLetterARN = "" }) }, "queues", Failure, "no dead-letter queue"},
		{"a dead-letter queue of another stack", func(s *fakeAWS) {
			queue(s, "https://q/1/jobs-polled", func(q *aws.Queue) { q.DeadLetterARN = "arn:q:else" })
		}, "queues", Warning, "not a queue of the stack"},
		{"a short retention of dead letters", func(s *fakeAWS) {
			queue(s, "https://q/1/lifecycle-dlq", func(q *aws.Queue) { q.RetentionPeriod = 86400 })
		}, "queues", Warning, "only 86400 s"},
		{"a low maxReceiveCount", func(s *fakeAWS) { queue(s, "https://q/1/lifecycle", func(q *aws.Queue) { q.MaxReceiveCount = 1 }) }, "queues", Failure, "after 1 receive"},
		{"a disabled mapping", func(s *fakeAWS) {
			s.mappings["m2"] = aws.Mapping{State: "Disabled", QueueARN: "arn:q:jobs-default", FunctionARN: "arn:f:worker", ReportsBatchItemFailures: true, MaxConcurrency: 2}
		}, "mappings", Failure, "nothing consumes jobs-default"},
		{"a mapping that is being created", func(s *fakeAWS) {
			s.mappings["m2"] = aws.Mapping{State: "Creating", QueueARN: "arn:q:jobs-default", FunctionARN: "arn:f:worker", ReportsBatchItemFailures: true, MaxConcurrency: 2}
		}, "mappings", Warning, "Creating"},
		{"a mapping without ReportBatchItemFailures", func(s *fakeAWS) {
			s.mappings["m2"] = aws.Mapping{State: "Enabled", QueueARN: "arn:q:jobs-default", FunctionARN: "arn:f:worker", MaxConcurrency: 2}
		}, "mappings", Failure, "one by one"},
		{"dead letters", func(s *fakeAWS) {
			queue(s, "https://q/1/jobs-default-dlq", func(q *aws.Queue) { q.VisibleMessages = 2 })
		}, "dead-letter queues", Failure, "2 messages on jobs-default-dlq"},
		{"a dead letter of the schedule", func(s *fakeAWS) { queue(s, "https://q/1/schedules-dlq", func(q *aws.Queue) { q.VisibleMessages = 1 }) }, "dead-letter queues", Failure, "1 message on schedules-dlq"},
		{"a disabled rule", func(s *fakeAWS) { s.rules["sweep"] = aws.Rule{Targets: []string{"arn:f:sweeper:live"}} }, "schedule", Failure, "disabled"},
		{"a missing rule", func(s *fakeAWS) { delete(s.rules, "sweep") }, "schedule", Failure, "does not exist"},
		{"a rule for something else", func(s *fakeAWS) { s.rules["sweep"] = aws.Rule{Enabled: true, Targets: []string{"arn:f:other"}} }, "schedule", Failure, "no rule starts the sweeper"},
		{"no sweep", func(s *fakeAWS) { s.invocations = 0 }, "schedule", Failure, "no sweep in the last 10 minutes"},
		{"no sweep yet", func(s *fakeAWS) { s.invocations, s.stack.ChangedAt = 0, testTime.Add(-time.Minute) }, "schedule", Warning, "yet"},
		{"a raised alarm", func(s *fakeAWS) {
			s.alarms["a1"] = aws.Alarm{Name: "a1", State: "ALARM", Description: "Too many failures. Runbook: https://books#failures", HasActions: true}
		}, "alarms", Failure, "Too many failures. (a1"},
		{"a missing alarm", func(s *fakeAWS) { delete(s.alarms, "a1") }, "alarms", Failure, "a1 of the stack does not exist"},
		{"a function with reserved concurrency 0", func(s *fakeAWS) { s.reserved["api"] = 0 }, "functions", Failure, "concurrency 0 stops api"},
		{"a consumer with reserved concurrency", func(s *fakeAWS) { s.reserved["worker"] = 5 }, "functions", Failure, "dead letters: worker"},
		{"a worker of another stack with reserved concurrency 0", func(s *fakeAWS) { addExternalWorker(s, nil); s.reserved["gpu"] = 0 }, "functions", Failure, "concurrency 0 stops gpu"},
		{"a worker of another stack with reserved concurrency", func(s *fakeAWS) { addExternalWorker(s, nil); s.reserved["gpu"] = 9 }, "functions", Failure, "dead letters: gpu"},
		{"a worker of another stack with recursion denied", func(s *fakeAWS) { addExternalWorker(s, nil); s.loops["gpu"] = false }, "functions", Failure, "would stop gpu"},
		{"a worker of another stack with a long timeout", func(s *fakeAWS) {
			addExternalWorker(s, nil)
			s.editFunction("gpu", func(f *aws.Function) { f.Timeout = 901 })
		}, "queues", Failure, "want 5406 s"},
		{"a worker of another stack with a disabled mapping", func(s *fakeAWS) { addExternalWorker(s, func(m *aws.Mapping) { m.State = "Disabled" }) }, "mappings", Failure, "nothing consumes jobs-polled"},
		{"a missing worker of another stack", func(s *fakeAWS) { addExternalWorker(s, nil); delete(s.functions, "gpu") }, "mappings", Failure, "jobs-polled is mapped to gpu, which does not exist"},
		{"one of two mappings is disabled", func(s *fakeAWS) {
			addExternalWorker(s, func(m *aws.Mapping) { m.QueueARN, m.State = "arn:q:jobs-default", "Disabled" })
		}, "mappings", Warning, "another mapping is enabled"},
		{"no mapping of the lifecycle queue", func(s *fakeAWS) {
			s.mappings["m1"] = aws.Mapping{State: "Enabled", QueueARN: "arn:q:else", FunctionARN: "arn:f:lifecycle", ReportsBatchItemFailures: true, MaxConcurrency: 2}
		}, "mappings", Failure, "nothing consumes lifecycle: it has no mapping"},
		{"a missing mapping", func(s *fakeAWS) { delete(s.mappings, "m2") }, "mappings", Failure, "m2 of the stack does not exist"},
		{"an unprotected table of a protected stack", func(s *fakeAWS) { s.stack.TerminationProtected = true }, "tables", Warning, "but not t-executions"},
		{"a restored table without protection", func(s *fakeAWS) {
			for _, role := range topology.Tables {
				table(s, "t-"+role, func(t *aws.Table) { t.DeletionProtected = role != topology.TableLocks })
			}
		}, "tables", Warning, "but not t-locks"},
		{"one alarm without actions", func(s *fakeAWS) {
			s.alarms["a2"] = aws.Alarm{Name: "a2", State: "OK"}
			s.stack.Resources = append(s.stack.Resources, aws.Resource{Type: aws.TypeAlarm, LogicalID: "A2", PhysicalID: "a2"})
		}, "alarms", Warning, "1 of 2 alarms notify nobody: a2"},
		{"all alarms without actions", func(s *fakeAWS) { s.alarms["a1"] = aws.Alarm{Name: "a1", State: "OK"} }, "alarms", Warning, "notify nobody"},
		{"a stack that may not be read", func(s *fakeAWS) { s.deniedCall = "stack" }, "stack", Failure, "not allowed"},
	} {
		t.Run(c.name, func(t *testing.T) { checkDefect(t, c.change, c.check, c.level, c.message) })
	}
	for call, check := range map[string]string{
		"function": "functions", "loops": "functions", "reserved": "functions", "table": "tables", "queue": "queues",
		"mapping": "mappings", "mappings": "mappings", "rule": "schedule", "alarms": "alarms",
	} {
		for _, c := range []struct {
			name    string
			change  func(s *fakeAWS)
			level   Level
			message string
		}{
			{"denied", func(s *fakeAWS) { s.deniedCall = call }, Warning, "not allowed"},
			{"failing", func(s *fakeAWS) { s.failingCall = call }, Failure, "not checked"},
		} {
			t.Run(c.name+" call "+call, func(t *testing.T) { checkDefect(t, c.change, check, c.level, c.message) })
		}
	}
	if aws.IsAccessDenied(errors.New("x")) || !aws.IsNotFound(errNotFound) {
		t.Error("wrong classification of errors")
	}
}

// checkDefect checks a healthy stack after change: it must give the finding, and no
// warning or failure of another check.
func checkDefect(t *testing.T, change func(*fakeAWS), check string, level Level, message string) {
	t.Helper()
	s := healthyAWS()
	change(s)
	report := checkFake(s)
	found := false
	for _, f := range report.Findings {
		switch {
		case f.Level == OK:
		case f.Check == check && f.Level == level && strings.Contains(f.Message, message) && f.Action != "":
			found = true
		case f.Check != check:
			t.Errorf("unexpected finding %+v", f)
		}
	}
	if !found {
		t.Errorf("no finding %s %s %q\n%+v", level, check, message, report.Findings)
	}
}

// addExternalWorker maps the polled pool to a function of another stack.
func addExternalWorker(s *fakeAWS, change func(*aws.Mapping)) {
	s.functions["gpu"] = aws.Function{Name: "gpu", ARN: "arn:f:gpu", State: "Active", LastUpdateStatus: "Successful", Timeout: 900}
	s.loops["gpu"] = true
	m := aws.Mapping{State: "Enabled", QueueARN: "arn:q:jobs-polled", FunctionARN: "arn:f:gpu", ReportsBatchItemFailures: true, MaxConcurrency: 50}
	if change != nil {
		change(&m)
	}
	s.mappings["m3"] = m
}

// The doctor counts a mapping of any stack. It leaves a queue to polling workers only
// if no function is mapped to it.
func TestStackCheck_CountsExternalConsumers(t *testing.T) {
	for want, change := range map[string]func(*fakeAWS){
		"2 mappings enabled, 1 queue without": func(*fakeAWS) {}, "3 mappings enabled, 0 queues without": func(s *fakeAWS) { addExternalWorker(s, nil) },
	} {
		s := healthyAWS()
		change(s)
		r := checkFake(s)
		if !slices.ContainsFunc(r.Findings, func(f Finding) bool {
			return f.Check == "mappings" && f.Level == OK && strings.HasPrefix(f.Message, want)
		}) {
			t.Errorf("want %q: %+v", want, r.Findings)
		}
	}
}

// The report names what it could not check, and no such check passes.
func TestStackCheck_ReportsUncheckedParts(t *testing.T) {
	for call, want := range map[string][]string{
		"function":    {"alarms", "concurrency", "dead-letter queues", "functions", "mappings", "queues", "schedule", "tables"},
		"queue":       {"concurrency", "dead-letter queues", "functions", "mappings", "queues"},
		"mappings":    {"concurrency", "functions", "mappings", "queues"},
		"rule":        {"schedule"},
		"concurrency": {"concurrency"},
		"":            nil,
	} {
		s := healthyAWS()
		s.deniedCall = call
		r := checkFake(s)
		if got := slices.Sorted(slices.Values(r.Unchecked)); !slices.Equal(got, want) {
			t.Errorf("without %q unchecked is %v, want %v", call, got, want)
		}
		for _, f := range r.Findings {
			if f.Level == OK && slices.Contains(want, f.Check) {
				t.Errorf("without %q: %+v", call, f)
			}
		}
	}
}
