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

	"github.com/lockstep-run/lockstep/shared/cloud"
	"github.com/lockstep-run/lockstep/shared/topology"
)

var moment = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// sky is an account with one stack that is well; tests take things from it.
type sky struct {
	stack       cloud.Stack
	tables      map[string]cloud.Table
	queues      map[string]cloud.Queue
	functions   map[string]cloud.Function
	loops       map[string]bool
	mappings    map[string]cloud.Mapping
	rules       map[string]cloud.Rule
	alarms      map[string]cloud.Alarm
	invocations int

	reserved map[string]int

	deny   string // the question that is refused
	broken string // the question that nobody answers
}

var errGone = &smithy.GenericAPIError{Code: "ResourceNotFoundException", Message: "not there"}

func give[T any](s *sky, question string, all map[string]T, name string) (T, error) {
	v, ok := all[name]
	switch {
	case s.broken == question:
		return v, &smithy.GenericAPIError{Code: "ExpiredTokenException", Message: "the session is over"}
	case s.deny == question:
		return v, &smithy.GenericAPIError{Code: "AccessDeniedException", Message: "not yours to ask"}
	case !ok:
		return v, errGone
	}
	return v, nil
}

func (s *sky) Stack(_ context.Context, name string) (cloud.Stack, error) {
	if s.deny == "stack" {
		return cloud.Stack{}, &smithy.GenericAPIError{Code: "AccessDenied", Message: "not yours to ask"}
	}
	if name != s.stack.Name {
		return cloud.Stack{}, cloud.ErrNoStack
	}
	return s.stack, nil
}
func (s *sky) Table(_ context.Context, name string) (cloud.Table, error) {
	return give(s, "table", s.tables, name)
}
func (s *sky) Queue(_ context.Context, url string) (cloud.Queue, error) {
	return give(s, "queue", s.queues, url)
}
func (s *sky) Function(_ context.Context, name string) (cloud.Function, error) {
	return give(s, "function", s.functions, short(name))
}
func (s *sky) Loops(_ context.Context, name string) (bool, error) {
	return give(s, "loops", s.loops, name)
}
func (s *sky) Mapping(_ context.Context, id string) (cloud.Mapping, error) {
	return give(s, "mapping", s.mappings, id)
}
func (s *sky) Reserved(_ context.Context, name string) (int, bool, error) {
	n, reserved := s.reserved[name]
	_, err := give(s, "reserved", s.functions, name)
	return n, reserved, err
}
func (s *sky) Mappings(_ context.Context, queue string) (all []cloud.Mapping, err error) {
	if _, err := give(s, "mappings", map[string]int{"": 0}, ""); err != nil {
		return nil, err
	}
	for _, id := range slices.Sorted(maps.Keys(s.mappings)) {
		if m := s.mappings[id]; m.Queue == queue {
			m.ID = id
			all = append(all, m)
		}
	}
	return all, nil
}
func (s *sky) Rule(_ context.Context, name string) (cloud.Rule, error) {
	return give(s, "rule", s.rules, name)
}
func (s *sky) Alarms(_ context.Context, names []string) ([]cloud.Alarm, error) {
	if _, err := give(s, "alarms", map[string]int{"": 0}, ""); err != nil {
		return nil, err
	}
	var all []cloud.Alarm
	for _, name := range names {
		if a, ok := s.alarms[name]; ok {
			all = append(all, a)
		}
	}
	return all, nil
}
func (s *sky) Invocations(_ context.Context, function string, from, to time.Time) (int, error) {
	if function != "sweeper" || !to.Equal(moment) || to.Sub(from) != lately {
		return 0, fmt.Errorf("asked about %s from %s to %s", function, from, to)
	}
	return s.invocations, nil
}

func (s *sky) edit(name string, change func(*cloud.Function)) {
	f := s.functions[name]
	change(&f)
	s.functions[name] = f
}

func fair() *sky {
	s := &sky{
		stack:  cloud.Stack{Name: "S", Status: "CREATE_COMPLETE", Changed: moment.Add(-time.Hour), Outputs: map[string]string{"EngineApiUrl": "https://x.test"}},
		tables: map[string]cloud.Table{}, queues: map[string]cloud.Queue{}, functions: map[string]cloud.Function{}, loops: map[string]bool{},
		mappings: map[string]cloud.Mapping{}, reserved: map[string]int{}, rules: map[string]cloud.Rule{}, alarms: map[string]cloud.Alarm{}, invocations: 10,
	}
	part := func(kind, name, id string) {
		s.stack.Parts = append(s.stack.Parts, cloud.Part{Kind: kind, Name: name, ID: id})
	}
	for _, role := range topology.Tables {
		indexes := map[string]string{}
		for _, i := range topology.Indexes[role] {
			indexes[i.Name] = "ACTIVE"
		}
		s.tables["t-"+role] = cloud.Table{Status: "ACTIVE", Indexes: indexes, Restores: true, Expiring: topology.AttrTTL}
		part(cloud.KindTable, "Table"+role, "t-"+role)
	}
	queue := func(name string, visibility, receives int) {
		dead := cloud.Queue{URL: "https://q/1/" + name + "-dlq", ARN: "arn:q:" + name + "-dlq", Name: name + "-dlq", Retention: 14 * 24 * 3600}
		s.queues[dead.URL] = dead
		part(cloud.KindQueue, name+"Dlq12", dead.URL)
		if visibility > 0 {
			url := "https://q/1/" + name
			s.queues[url] = cloud.Queue{URL: url, ARN: "arn:q:" + name, Name: name, Visibility: visibility, DeadTo: dead.ARN, Receives: receives}
			part(cloud.KindQueue, name+"Queue12", url)
		}
	}
	queue("lifecycle", 720, 10)
	queue("jobs-default", 5400, 20)
	queue("jobs-polled", 5400, 20)
	queue("schedules", 0, 0)
	for _, name := range topology.Functions {
		env := map[string]string{topology.EnvQueueLifecycle: "https://q/1/lifecycle"}
		for _, role := range topology.Tables {
			if len(topology.RightsOn(name, role)) > 0 {
				env[topology.TableEnv[role]] = "t-" + role
			}
		}
		if name == topology.FunctionAPI {
			env[topology.EnvQueueJobsURLs] = `{"default":"https://q/1/jobs-default","polled":"https://q/1/jobs-polled"}`
		}
		s.functions[name] = cloud.Function{Name: name, ARN: "arn:f:" + name, State: "Active", Update: "Successful", Timeout: topology.FunctionTimeout[name], Environment: env}
		s.loops[name] = true
		part(cloud.KindFunction, name, name)
	}
	s.functions["theirs"] = cloud.Function{Name: "theirs", State: "Failed"}
	part(cloud.KindFunction, "Theirs", "theirs")
	s.mappings["m1"] = cloud.Mapping{State: "Enabled", Queue: "arn:q:lifecycle", Function: "arn:f:lifecycle", Partial: true}
	s.mappings["m2"] = cloud.Mapping{State: "Enabled", Queue: "arn:q:jobs-default", Function: "arn:f:worker", Partial: true}
	part(cloud.KindMapping, "M1", "m1")
	part(cloud.KindMapping, "M2", "m2")
	s.rules["sweep"] = cloud.Rule{Enabled: true, Schedule: "rate(1 minute)", Targets: []string{"arn:f:sweeper"}}
	part(cloud.KindRule, "Rule", "sweep")
	s.alarms["a1"] = cloud.Alarm{Name: "a1", State: "OK", Notifies: true}
	part(cloud.KindAlarm, "A1", "a1")
	return s
}

func examined(s *sky) *Report {
	r := &Report{}
	look := &stack{Cloud: s, report: r, now: func() time.Time { return moment }}
	look.examine(context.Background(), "S")
	return r
}

func TestStackThatIsWell(t *testing.T) {
	s := fair()
	r := examined(s)
	checks := map[string]bool{}
	for _, f := range r.Findings {
		if f.Level != OK {
			t.Errorf("%+v", f)
		}
		checks[f.Check] = true
	}
	for _, want := range []string{"stack", "functions", "tables", "mappings", "queues", "dead-letter queues", "schedule", "alarms"} {
		if !checks[want] {
			t.Errorf("nothing is said of the %s", want)
		}
	}
	look := &stack{Cloud: s, report: &Report{}, now: time.Now}
	if url := look.examine(t.Context(), "S"); url != "https://x.test" {
		t.Errorf("the address is %q", url)
	}
}

// Whatever is wrong with a stack is found, by its own check, with what to do next,
// and nothing else is said to be wrong.
func TestStackThatIsNot(t *testing.T) {
	q := func(s *sky, url string, change func(*cloud.Queue)) {
		v := s.queues[url]
		change(&v)
		s.queues[url] = v
	}
	table := func(s *sky, name string, change func(*cloud.Table)) {
		v := s.tables[name]
		change(&v)
		s.tables[name] = v
	}
	for _, c := range []struct {
		name  string
		spoil func(s *sky)
		check string
		level Level
		says  string
	}{
		{"another stack", func(s *sky) { s.stack.Name = "T" }, "stack", Failure, "no stack S"},
		{"an update under way", func(s *sky) { s.stack.Status = "UPDATE_IN_PROGRESS" }, "stack", Warning, "UPDATE_IN_PROGRESS"},
		{"an update taken back", func(s *sky) { s.stack.Status, s.stack.Reason = "UPDATE_ROLLBACK_COMPLETE", "quota" }, "stack", Warning, "taken back: quota"},
		{"an update that hangs", func(s *sky) { s.stack.Status = "UPDATE_ROLLBACK_FAILED" }, "stack", Failure, "UPDATE_ROLLBACK_FAILED"},
		{"a creation taken back", func(s *sky) { s.stack.Status = "ROLLBACK_COMPLETE" }, "stack", Failure, "ROLLBACK_COMPLETE"},
		{"another product", func(s *sky) {
			for _, name := range topology.Functions {
				s.edit(name, func(f *cloud.Function) { f.Environment = nil })
			}
		}, "functions", Failure, "no function of S"},
		{"a function that is gone", func(s *sky) { delete(s.functions, "theirs") }, "functions", Failure, "theirs of the stack is not there"},
		{"a function that failed", func(s *sky) {
			s.edit("api", func(f *cloud.Function) { f.State, f.Reason = "Failed", "its role is gone" })
		}, "functions", Failure, "its role is gone"},
		{"an update that failed", func(s *sky) { s.edit("api", func(f *cloud.Function) { f.Update = "Failed" }) }, "functions", Failure, "api"},
		{"an update in progress", func(s *sky) { s.edit("api", func(f *cloud.Function) { f.Update = "InProgress" }) }, "functions", Warning, "api"},
		{"the loop guard", func(s *sky) { s.loops["worker"] = false }, "functions", Failure, "would stop worker"},
		{"a table that is gone", func(s *sky) { delete(s.tables, "t-locks") }, "tables", Failure, "t-locks (locks) is not there"},
		{"a table without its key", func(s *sky) {
			table(s, "t-locks", func(t *cloud.Table) { t.Status = "INACCESSIBLE_ENCRYPTION_CREDENTIALS" })
		}, "tables", Failure, "INACCESSIBLE"},
		{"an index that is missing", func(s *sky) { table(s, "t-jobs", func(t *cloud.Table) { t.Indexes = nil }) }, "tables", Failure, "workers-due of t-jobs is missing"},
		{"no recovery", func(s *sky) { table(s, "t-jobs", func(t *cloud.Table) { t.Restores = false }) }, "tables", Failure, "not to be restored to a moment: t-jobs"},
		{"no expiry", func(s *sky) { table(s, "t-jobs", func(t *cloud.Table) { t.Expiring = "" }) }, "tables", Failure, "in t-jobs"},
		{"a table nobody knows", func(s *sky) {
			for _, name := range topology.Functions {
				s.edit(name, func(f *cloud.Function) { delete(f.Environment, topology.TableEnv[topology.TableRegistry]) })
			}
		}, "tables", Failure, "no function knows the table registry"},
		{"a queue that is gone", func(s *sky) { delete(s.queues, "https://q/1/schedules-dlq") }, "queues", Failure, "schedules-dlq is not there"},
		{"a short visibility", func(s *sky) { q(s, "https://q/1/jobs-default", func(q *cloud.Queue) { q.Visibility = 5399 }) }, "queues", Failure, "want 5400 s"},
		{"no dead letters", func(s *sky) { q(s, "https://q/1/jobs-polled", func(q *cloud.Queue) { q.DeadTo = "" }) }, "queues", Failure, "no queue for its dead letters"},
		{"dead letters elsewhere", func(s *sky) { q(s, "https://q/1/jobs-polled", func(q *cloud.Queue) { q.DeadTo = "arn:q:else" }) }, "queues", Warning, "no queue of the stack"},
		{"dead letters for a day", func(s *sky) { q(s, "https://q/1/lifecycle-dlq", func(q *cloud.Queue) { q.Retention = 86400 }) }, "queues", Warning, "86400 s only"},
		{"few receives", func(s *sky) { q(s, "https://q/1/lifecycle", func(q *cloud.Queue) { q.Receives = 1 }) }, "queues", Failure, "after 1 receive"},
		{"a mapping that is off", func(s *sky) {
			s.mappings["m2"] = cloud.Mapping{State: "Disabled", Queue: "arn:q:jobs-default", Function: "arn:f:worker", Partial: true}
		}, "mappings", Failure, "nobody works on jobs-default"},
		{"a mapping that is being made", func(s *sky) {
			s.mappings["m2"] = cloud.Mapping{State: "Creating", Queue: "arn:q:jobs-default", Function: "arn:f:worker", Partial: true}
		}, "mappings", Warning, "Creating"},
		{"a mapping of whole batches", func(s *sky) {
			s.mappings["m2"] = cloud.Mapping{State: "Enabled", Queue: "arn:q:jobs-default", Function: "arn:f:worker"}
		}, "mappings", Failure, "one by one"},
		{"dead letters", func(s *sky) { q(s, "https://q/1/jobs-default-dlq", func(q *cloud.Queue) { q.Waiting = 2 }) }, "dead-letter queues", Failure, "2 messages on jobs-default-dlq"},
		{"a dead letter of the schedule", func(s *sky) { q(s, "https://q/1/schedules-dlq", func(q *cloud.Queue) { q.Waiting = 1 }) }, "dead-letter queues", Failure, "1 message on schedules-dlq"},
		{"a rule that is off", func(s *sky) { s.rules["sweep"] = cloud.Rule{Targets: []string{"arn:f:sweeper"}} }, "schedule", Failure, "disabled"},
		{"a rule that is gone", func(s *sky) { delete(s.rules, "sweep") }, "schedule", Failure, "is not there"},
		{"a rule for something else", func(s *sky) { s.rules["sweep"] = cloud.Rule{Enabled: true, Targets: []string{"arn:f:theirs"}} }, "schedule", Failure, "no rule runs the sweeper"},
		{"no sweep", func(s *sky) { s.invocations = 0 }, "schedule", Failure, "no sweep in the last 10 minutes"},
		{"no sweep yet", func(s *sky) { s.invocations, s.stack.Changed = 0, moment.Add(-time.Minute) }, "schedule", Warning, "yet"},
		{"an alarm", func(s *sky) {
			s.alarms["a1"] = cloud.Alarm{Name: "a1", State: "ALARM", Says: "It burns. Runbook: https://books#fire", Notifies: true}
		}, "alarms", Failure, "It burns. (a1"},
		{"an alarm that is gone", func(s *sky) { delete(s.alarms, "a1") }, "alarms", Failure, "a1 of the stack is not there"},
		{"a function that is stopped", func(s *sky) { s.reserved["api"] = 0 }, "functions", Failure, "nothing runs of api"},
		{"a function that polls with a reservation", func(s *sky) { s.reserved["worker"] = 5 }, "functions", Failure, "dead letters, of worker"},
		{"reservations not to be asked", func(s *sky) { s.deny = "reserved" }, "functions", Warning, "not yours"},
		{"a worker of another stack that is stopped", func(s *sky) { elsewhere(s, nil); s.reserved["gpu"] = 0 }, "functions", Failure, "nothing runs of gpu"},
		{"a worker of another stack with a reservation", func(s *sky) { elsewhere(s, nil); s.reserved["gpu"] = 9 }, "functions", Failure, "dead letters, of gpu"},
		{"a worker of another stack that may not loop", func(s *sky) { elsewhere(s, nil); s.loops["gpu"] = false }, "functions", Failure, "would stop gpu"},
		{"a worker of another stack that takes long", func(s *sky) {
			elsewhere(s, nil)
			s.edit("gpu", func(f *cloud.Function) { f.Timeout = 901 })
		}, "queues", Failure, "want 5406 s"},
		{"a worker of another stack that is off", func(s *sky) { elsewhere(s, func(m *cloud.Mapping) { m.State = "Disabled" }) }, "mappings", Failure, "nobody works on jobs-polled"},
		{"a worker of another stack that is gone", func(s *sky) { elsewhere(s, nil); delete(s.functions, "gpu") }, "mappings", Failure, "jobs-polled is handed to gpu, which is not there"},
		{"one of two mappings is off", func(s *sky) {
			elsewhere(s, func(m *cloud.Mapping) { m.Queue, m.State = "arn:q:jobs-default", "Disabled" })
		}, "mappings", Warning, "another one is not"},
		{"no mapping for looks", func(s *sky) {
			s.mappings["m1"] = cloud.Mapping{State: "Enabled", Queue: "arn:q:else", Function: "arn:f:lifecycle", Partial: true}
		}, "mappings", Failure, "nobody works on lifecycle: it has no mapping"},
		{"a mapping that is gone", func(s *sky) { delete(s.mappings, "m2") }, "mappings", Failure, "m2 of the stack is not there"},
		{"a table of a kept stack", func(s *sky) { s.stack.Protected = true }, "tables", Warning, "may delete t-executions"},
		{"a table that was restored", func(s *sky) {
			for _, role := range topology.Tables {
				table(s, "t-"+role, func(t *cloud.Table) { t.Protected = role != topology.TableLocks })
			}
		}, "tables", Warning, "may delete t-locks"},
		{"somebody is not told", func(s *sky) {
			s.alarms["a2"] = cloud.Alarm{Name: "a2", State: "OK"}
			s.stack.Parts = append(s.stack.Parts, cloud.Part{Kind: cloud.KindAlarm, Name: "A2", ID: "a2"})
		}, "alarms", Warning, "nobody is told of 1 of 2 alarms: a2"},
		{"nobody is told", func(s *sky) { s.alarms["a1"] = cloud.Alarm{Name: "a1", State: "OK"} }, "alarms", Warning, "nobody is told"},
		{"a stack not to be asked", func(s *sky) { s.deny = "stack" }, "stack", Failure, "not yours"},
		{"functions not to be asked", func(s *sky) { s.deny = "function" }, "functions", Warning, "not yours"},
		{"loops not to be asked", func(s *sky) { s.deny = "loops" }, "functions", Warning, "not yours"},
		{"tables not to be asked", func(s *sky) { s.deny = "table" }, "tables", Warning, "not yours"},
		{"queues not to be asked", func(s *sky) { s.deny = "queue" }, "queues", Warning, "not yours"},
		{"whose mappings not to be asked", func(s *sky) { s.deny = "mappings" }, "mappings", Warning, "not yours"},
		{"mappings not to be asked", func(s *sky) { s.deny = "mapping" }, "mappings", Warning, "not yours"},
		{"rules not to be asked", func(s *sky) { s.deny = "rule" }, "schedule", Warning, "not yours"},
		{"alarms not to be asked", func(s *sky) { s.deny = "alarms" }, "alarms", Warning, "not yours"},
		{"nobody answers about function", func(s *sky) { s.broken = "function" }, "functions", Failure, "not checked"},
		{"nobody answers about loops", func(s *sky) { s.broken = "loops" }, "functions", Failure, "not checked"},
		{"nobody answers about reserved", func(s *sky) { s.broken = "reserved" }, "functions", Failure, "not checked"},
		{"nobody answers about table", func(s *sky) { s.broken = "table" }, "tables", Failure, "not checked"},
		{"nobody answers about queue", func(s *sky) { s.broken = "queue" }, "queues", Failure, "not checked"},
		{"nobody answers about mapping", func(s *sky) { s.broken = "mapping" }, "mappings", Failure, "not checked"},
		{"nobody answers about mappings", func(s *sky) { s.broken = "mappings" }, "mappings", Failure, "not checked"},
		{"nobody answers about rule", func(s *sky) { s.broken = "rule" }, "schedule", Failure, "not checked"},
		{"nobody answers about alarms", func(s *sky) { s.broken = "alarms" }, "alarms", Failure, "not checked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := fair()
			c.spoil(s)
			found := false
			for _, f := range examined(s).Findings {
				switch {
				case f.Level == OK:
				case f.Check == c.check && f.Level == c.level && strings.Contains(f.Says, c.says) && f.Next != "":
					found = true
				case f.Check != c.check:
					t.Errorf("it says too: %+v", f)
				}
			}
			if !found {
				t.Errorf("not found: %s %s %q\n%+v", c.level, c.check, c.says, examined(s).Findings)
			}
		})
	}
	if cloud.Denied(errors.New("x")) || !cloud.Gone(errGone) {
		t.Error("errors are told apart wrongly")
	}
}

// elsewhere has the polled pool served by a function of another stack.
func elsewhere(s *sky, change func(*cloud.Mapping)) {
	s.functions["gpu"] = cloud.Function{Name: "gpu", ARN: "arn:f:gpu", State: "Active", Update: "Successful", Timeout: 900}
	s.loops["gpu"] = true
	m := cloud.Mapping{State: "Enabled", Queue: "arn:q:jobs-polled", Function: "arn:f:gpu", Partial: true}
	if change != nil {
		change(&m)
	}
	s.mappings["m3"] = m
}

// A pool is served by whoever is mapped to it, and is left to workers that poll
// only where nobody is.
func TestWorkersOfAnotherStack(t *testing.T) {
	for want, spoil := range map[string]func(*sky){
		"2 mappings enabled, 1 queue without": func(*sky) {}, "3 mappings enabled, 0 queues without": func(s *sky) { elsewhere(s, nil) },
	} {
		s := fair()
		spoil(s)
		r := examined(s)
		if !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Check == "mappings" && f.Level == OK && strings.HasPrefix(f.Says, want) }) {
			t.Errorf("want %q: %+v", want, r.Findings)
		}
	}
}

// What could not be looked at is named, and nothing good is said of it.
func TestUnchecked(t *testing.T) {
	for question, want := range map[string][]string{
		"function": {"alarms", "dead-letter queues", "functions", "mappings", "queues", "schedule", "tables"},
		"queue":    {"dead-letter queues", "functions", "mappings", "queues"},
		"mappings": {"functions", "mappings", "queues"},
		"rule":     {"schedule"},
		"":         nil,
	} {
		s := fair()
		s.deny = question
		r := examined(s)
		if got := slices.Sorted(slices.Values(r.Unchecked)); !slices.Equal(got, want) {
			t.Errorf("without %q unchecked is %v, want %v", question, got, want)
		}
		for _, f := range r.Findings {
			if f.Level == OK && slices.Contains(want, f.Check) {
				t.Errorf("without %q: %+v", question, f)
			}
		}
	}
}
