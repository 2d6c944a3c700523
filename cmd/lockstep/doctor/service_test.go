package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
)

// response is the answer of a route.
type response struct {
	status int
	body   string
}

func problemResponse(status int, code string) response {
	return response{status, fmt.Sprintf(`{"status":%d,"code":%q,"detail":"because"}`, status, code)}
}

// healthyService returns the answers of a healthy service, by method and path.
func healthyService() map[string]response {
	none := response{200, `{"items":[],"nextPageToken":null}`}
	return map[string]response{
		"GET /health":                       {200, `{}`},
		"GET /version":                      {200, `{"version":"1.2.0","commit":"","go":""}`},
		"GET /workflow-execution":           none,
		"GET /workflow-execution/id/x2":     {200, `{"id":"x2","state":"COMPLETED_ACK","endedAt":"2026-11-21T11:00:00Z","followUpFailure":{"at":"2026-11-21T11:30:00Z","attempts":4,"error":"there is no p/later"}}`},
		"POST /workflow-execution":          problemResponse(400, "invalid"),
		"POST /workflow-definition/publish": problemResponse(400, "invalid"),
		"POST /entities/import":             problemResponse(400, "invalid"),
		"POST /workflow-execution/" + unknownExecutionID + "/cancel": problemResponse(404, "not_found"),
		"POST /dead-letters/redrive":                                 problemResponse(400, "invalid"),
		"GET /dead-letters":                                          {200, `{"items":[{"queue":"lifecycle","messages":0,"complete":true,"letters":[]}],"nextPageToken":null}`},
		"GET /sweep":                                                 {200, `{"asOf":"2026-11-21T12:00:00Z","executions":[],"workers":[],"schedules":[],"complete":true}`},
		"GET /tables":                                                {200, `{"items":[{"name":"log"}],"nextPageToken":null}`},
		"GET /tables/log/deliveries":                                 {200, `{"items":[{"delivery":"d","delivered":true,"attempts":2}]}`},
		"GET /subscriptions":                                         {200, `{"items":[{"name":"ops","to":"x","dead":0,"suspended":null}]}`},
		"GET /workers":                                               none,
		"GET /function-blocks":                                       {200, `{"items":[{"package":"p","name":"b","version":"1.0.0","pool":"edge"},{"package":"p","name":"c","version":"1.0.0","pool":"p"}],"nextPageToken":null}`},
		"GET /workflow-execution/active":                             {200, `{"items":[{"id":"x1","state":"RUNNING","waiting":null}],"nextPageToken":null}`},
		"GET /blackboard/jobs":                                       {200, `{"items":[{"pool":"default","queue":true,"waiting":0,"claimed":0,"delayed":0,"claims":[]},{"pool":"shared","queue":true,"waiting":null,"claimed":null,"delayed":null,"claims":[]}],"nextPageToken":null}`},
	}
}

// runDoctor runs the verb against a service whose clock is off by clockOffset.
func runDoctor(t *testing.T, routes map[string]response, clockOffset time.Duration) (Report, error) {
	t.Helper()
	return runDoctorAt(t, routes, clockOffset, func() time.Time { return testTime }, Options{})
}

func runDoctorAt(t *testing.T, routes map[string]response, clockOffset time.Duration, now func() time.Time, opts Options, args ...string) (Report, error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := routes[r.Method+" "+r.URL.Path]
		for _, filter := range []string{"state", "status"} {
			if special, is := routes[filter+" "+r.URL.Query().Get(filter)]; is {
				a = special
			}
		}
		if !ok {
			t.Errorf("unexpected request %s %s", r.Method, r.URL)
			a = problemResponse(404, "not_found")
		}
		w.Header().Set("Date", testTime.Add(clockOffset).Format(http.TimeFormat))
		w.WriteHeader(a.status)
		fmt.Fprint(w, a.body)
	}))
	defer server.Close()
	env := render.Env{
		NewClient: func(adjust ...func(*client.Options)) (*client.Client, error) {
			o := client.Options{URL: server.URL, HTTP: server.Client()}
			for _, f := range adjust {
				f(&o)
			}
			return client.New(o)
		},
		JSON: func() bool { return true },
	}
	opts.Version, opts.Now = "1.2.0", now
	if opts.URLSet == nil {
		opts.URLSet = func(*cobra.Command) bool { return true }
	}
	var out bytes.Buffer
	cmd := NewCommand(env, opts)
	cmd.SetOut(&out)
	cmd.SetArgs(append([]string{}, args...))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	failure := cmd.ExecuteContext(t.Context())
	var report Report
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Error(err)
	}
	return report, failure
}

func TestServiceCheck_PassesHealthyService(t *testing.T) {
	report, err := runDoctor(t, healthyService(), 2*time.Second)
	if err != nil || !report.OK || len(report.Findings) != 12 {
		t.Errorf("%v, %+v", err, report)
	}
	for _, f := range report.Findings {
		if f.Level != OK {
			t.Errorf("%+v", f)
		}
	}
}

// Each defect of a service is found by its own check and by no other. A failure fails
// the command, a warning does not.
func TestServiceCheck_FindsEachDefect(t *testing.T) {
	due := func(since string) response {
		return response{200, `{"asOf":"2026-11-21T12:00:00Z","executions":[{"execution":"x1","state":"RUNNING","since":"` + since + `"}],"workers":[],"schedules":[],"complete":true}`}
	}
	for _, c := range []struct {
		name        string
		clockOffset time.Duration
		route       string
		answer      response
		check       string
		level       Level
		want        string
	}{
		{"not ready", 0, "GET /health", problemResponse(503, "unavailable"), "address", Failure, "does not take requests"},
		{"another kind of service", 0, "GET /health", response{404, "<html>"}, "address", Failure, "not as a Lockstep service does"},
		{"a slow clock", -4 * time.Minute, "", response{}, "clock", Warning, "differ by 4m0s"},
		{"a fast clock", 6 * time.Minute, "", response{}, "clock", Failure, "differ by 6m0s"},
		{"unknown caller", 0, "GET /workflow-execution", response{401, `{"message":"Unauthorized"}`}, "rights", Failure, "does not know the caller"},
		{"no permission to read", 0, "GET /workflow-execution", response{403, `{"message":"Forbidden"}`}, "rights", Failure, "may not even read"},
		{"no permission to start", 0, "POST /workflow-execution", response{403, `{"message":"Forbidden"}`}, "rights", Warning, "may read, publish, import, cancel, redrive, and may not start executions"},
		{"unknown permission", 0, "POST /workflow-execution", problemResponse(500, "internal"), "rights", Failure, "cannot find out whether the caller may start executions"},
		{"another release", 0, "GET /version", response{200, `{"version":"1.3.0"}`}, "version", Warning, "the command is 1.2.0, the service 1.3.0"},
		{"dead letters", 0, "GET /dead-letters", response{200, `{"items":[{"queue":"jobs-x","messages":3,"complete":true,"letters":[]}]}`}, "dead letters", Failure, "3 messages of this tenant on jobs-x"},
		{"dead letters that may not be read", 0, "GET /dead-letters", response{403, `{"message":"Forbidden"}`}, "dead letters", Warning, "do not allow it"},
		{"an overdue timer", 0, "GET /sweep", due("2026-11-21T11:55:00Z"), "sweep", Warning, "5m0s of execution x1"},
		{"a long overdue timer", 0, "GET /sweep", due("2026-11-21T11:00:00Z"), "sweep", Failure, "1h0m0s of execution x1"},
		{"a failing sweep", 0, "GET /sweep", problemResponse(500, "internal"), "sweep", Failure, "because"},
		{"an offline worker", 0, "GET /workers", response{200, `{"items":[{"id":"w1","state":"OFFLINE","pool":"p"},{"id":"w2","state":"ONLINE","pool":"p","lastHeartbeat":"2026-11-21T11:59:30Z"}]}`}, "workers", Warning, "w1 (OFFLINE)"},
		{"a worker that has become silent", 0, "GET /workers", response{200, `{"items":[{"id":"w1","state":"ONLINE","pool":"p","lastHeartbeat":"2026-11-21T11:58:50Z"},{"id":"w2","state":"REGISTERED","pool":"edge@eu","registeredAt":"2026-11-21T11:59:30Z"}]}`}, "workers", Warning, "no recent heartbeat from w1 (since 2026-11-21"},
		{"a worker without any heartbeat", 0, "GET /workers", response{200, `{"items":[{"id":"w1","state":"REGISTERED","pool":"p","registeredAt":"2026-11-21T11:58:50Z"}]}`}, "workers", Warning, "no recent heartbeat from w1 (none since it registered at 2026-11-21"},
		{"a worker of a pool of nobody", 0, "GET /workers", response{200, `{"items":[{"id":"w1","state":"ONLINE","pool":"edgee@eu","lastHeartbeat":"2026-11-21T11:59:30Z"},{"id":"w2","state":"ONLINE","pool":"default@eu","lastHeartbeat":"2026-11-21T11:59:30Z"}]}`}, "pools", Warning, `w1: no block names the pool edgee; did you mean "edge"?`},
		{"a pool without a queue", 0, "GET /blackboard/jobs", response{200, `{"items":[{"pool":"edge","queue":false,"waiting":null,"claimed":null,"claims":[]}]}`}, "pools", Warning, "edge, which has no queue"},
		{"jobs for a region", 0, "GET /blackboard/jobs", response{200, `{"items":[{"pool":"edge@mars","queue":false,"waiting":null,"claimed":null,"claims":[],"unclaimed":{"jobs":7,"executions":2,"since":"2026-11-21T11:00:00Z"}}]}`}, "pools", Warning, "7 jobs of 2 executions for the pool edge in the region mars, and no worker has claimed any since 2026-11-21"},
		{"jobs that nobody claims", 0, "GET /blackboard/jobs", response{200, `{"items":[{"pool":"edge","queue":true,"waiting":null,"claimed":null,"claims":[],"unclaimed":{"jobs":1,"executions":1,"since":"2026-11-21T11:00:00Z"}}]}`}, "pools", Warning, "1 job of 1 execution for the pool edge, and no worker"},
		{"rows that do not fit", 0, "GET /tables/log/deliveries", response{200, `{"items":[{"delivery":"d","delivered":true,"attempts":2},{"delivery":"e","attempts":3,"error":"1 rows of step a are not stored"}]}`}, "tables", Warning, "rows of 1 step are not stored in the table log, the newest because: 1 rows of step a"},
		{"a suspended subscription", 0, "GET /subscriptions", response{200, `{"items":[{"name":"ops","suspended":{"at":"2026-11-21T11:00:00Z","reason":"its receiver has answered 410"}}]}`}, "subscriptions", Warning, "ops is suspended since 2026-11-21"},
		{"deliveries that were given up", 0, "GET /subscriptions", response{200, `{"items":[{"name":"ops","dead":3}]}`}, "subscriptions", Warning, "the last 3 to ops were given up"},
		{"a follow-up that fails", 0, "status FAILED", response{200, `{"items":[{"id":"x2","state":"FAILED_SAFE_ACK"}]}`}, "follow-ups", Warning, "of the ends of 1 execution, these have not started what they should: x2; one of them because: there is no p/later"},
		{"unclaimed work", 0, "GET /blackboard/jobs", response{200, `{"items":[{"pool":"edge","queue":true,"waiting":7,"claimed":0,"claims":[]}]}`}, "pools", Warning, "7 messages for the pool edge"},
		{"an execution to acknowledge", 0, "state FAILED_UNSAFE", response{200, `{"items":[{"id":"x9","state":"FAILED_UNSAFE","waiting":{"kind":"ACKNOWLEDGE"}}]}`}, "runs", Warning, "acknowledged: x9"},
		{"more executions to acknowledge than are looked at", 0, "state FAILED_UNSAFE", response{200, `{"items":[` + strings.TrimSuffix(strings.Repeat(`{"id":"x9","state":"FAILED_UNSAFE","waiting":{"kind":"ACKNOWLEDGE"}},`, 101), ",") + `]}`}, "runs", Warning, "more than 100 wait to be acknowledged"},
		{"as many executions to acknowledge as are looked at", 0, "state FAILED_UNSAFE", response{200, `{"items":[` + strings.TrimSuffix(strings.Repeat(`{"id":"x9","state":"FAILED_UNSAFE","waiting":{"kind":"ACKNOWLEDGE"}},`, 100), ",") + `]}`}, "runs", Warning, "these wait to be acknowledged: x9, x9, x9 and 97 others"},
		{"an execution that holds nothing", 0, "state FAILED_UNSAFE", response{200, `{"items":[{"id":"x9","state":"FAILED_UNSAFE","kept":0,"waiting":{"kind":"ACKNOWLEDGE"}}]}`}, "runs", Warning, "hold no locks: x9"},
		{"a rollback that has failed", 0, "state FAILED_UNSAFE", response{200, `{"items":[{"id":"x9","state":"FAILED_UNSAFE","kept":2,"failedRollback":{"step":"a"},"waiting":{"kind":"ACKNOWLEDGE"}}]}`}, "runs", Warning, "the rollback of these has failed: x9"},
		{"a rollback that cannot be tried again", 0, "state FAILED_UNSAFE", response{200, `{"items":[{"id":"x9","state":"FAILED_UNSAFE","kept":2,"failedRollback":{"step":"a","obstacle":"no"},"waiting":{"kind":"ACKNOWLEDGE"}}]}`}, "runs", Warning, "acknowledged: x9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			routes := healthyService()
			if c.route != "" {
				routes[c.route] = c.answer
			}
			report, err := runDoctor(t, routes, c.clockOffset)
			if (err != nil) != (c.level == Failure) || report.OK != (c.level != Failure) {
				t.Errorf("got error %v, ok %v", err, report.OK)
			}
			found := false
			for _, f := range report.Findings {
				switch {
				case f.Level == OK:
				case f.Check == c.check && f.Level == c.level && strings.Contains(f.Message, c.want) && f.Action != "":
					found = true
				default:
					t.Errorf("unexpected finding %+v", f)
				}
			}
			if !found {
				t.Errorf("missing finding in %+v", report.Findings)
			}
		})
	}
}

// Only the newest ends are examined, which the finding says, and nothing that still runs.
func TestServiceCheck_ExaminesTheNewestEnds(t *testing.T) {
	routes, items := healthyService(), []string{}
	for n := range maxEndsRead + 5 {
		id := fmt.Sprintf("y%d", n)
		items = append(items, fmt.Sprintf(`{"id":%q,"state":"COMPLETED_ACK"}`, id))
		if n < maxEndsRead { // any other is an unexpected request
			routes["GET /workflow-execution/id/"+id] = response{200, fmt.Sprintf(`{"id":%q,"state":"COMPLETED_ACK"}`, id)}
		}
	}
	routes["status COMPLETED"] = response{200, `{"items":[` + strings.Join(items, ",") + `]}`}
	routes["GET /workflow-execution"] = response{200, `{"items":[]}`}
	report, err := runDoctor(t, routes, 0)
	want := fmt.Sprintf("none failed, of the ends of %d executions (the newest %d of each status)", maxEndsRead, maxEndsRead)
	if err != nil || !slices.ContainsFunc(report.Findings, func(f Finding) bool { return f.Check == "follow-ups" && f.Level == OK && f.Message == want }) {
		t.Errorf("%v, %+v", err, report.Findings)
	}
}

func TestServiceCheck_WarnsOfSlowService(t *testing.T) {
	clock := testTime
	slowClock := func() time.Time { clock = clock.Add(3 * time.Second); return clock }
	report, err := runDoctorAt(t, healthyService(), 0, slowClock, Options{})
	if f := report.Findings[0]; err != nil || f.Check != "address" || f.Level != Warning || !strings.Contains(f.Message, "3s") {
		t.Errorf("%v, %+v", err, f)
	}
}

// The address is the stack's, unless the caller names one.
func TestCommand_ChoosesServiceAddress(t *testing.T) {
	noURL := func(*cobra.Command) bool { return false }
	open := func(c AWS, err error) func(context.Context) (AWS, error) {
		return func(context.Context) (AWS, error) { return c, err }
	}
	now := func() time.Time { return testTime }
	withoutOutput := healthyAWS()
	withoutOutput.stack.Outputs = nil
	otherAddress := healthyAWS()
	otherAddress.stack.Outputs["EngineApiUrl"] = "http://127.0.0.1:1"
	for _, c := range []struct {
		name    string
		opts    Options
		check   string
		level   Level
		message string
	}{
		{"healthy stack and service", Options{OpenAWS: open(healthyAWS(), nil)}, "runs", OK, "none waits"},
		{"no credentials", Options{OpenAWS: open(nil, errors.New("no credentials"))}, "credentials", Failure, "no credentials"},
		{"stack without an address", Options{OpenAWS: open(withoutOutput, nil), URLSet: noURL}, "address", Warning, "was not checked"},
		{"address of the stack", Options{OpenAWS: open(otherAddress, nil), URLSet: noURL}, "address", Failure, "http://127.0.0.1:1"},
		{"address of the caller", Options{OpenAWS: open(otherAddress, nil)}, "address", OK, "answers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			report, err := runDoctorAt(t, healthyService(), 0, now, c.opts, "--stack", "S")
			if (err != nil) != (c.level == Failure) {
				t.Errorf("got error %v", err)
			}
			for _, f := range report.Findings {
				if f.Check == c.check && f.Level == c.level && strings.Contains(f.Message, c.message) {
					return
				}
			}
			t.Errorf("missing finding in %+v", report.Findings)
		})
	}
}

// A timer that has just become due is no finding.
func TestServiceCheck_IgnoresJustDueTimers(t *testing.T) {
	routes := healthyService()
	routes["GET /sweep"] = response{200, `{"asOf":"2026-11-21T12:00:00Z","executions":[{"execution":"x1","state":"RUNNING","since":"2026-11-21T11:59:00Z"}],"workers":[],"schedules":[],"complete":true}`}
	if report, err := runDoctor(t, routes, 0); err != nil || !report.OK {
		t.Errorf("%v, %+v", err, report)
	}
}

func TestReport_WritesTable(t *testing.T) {
	r := &Report{}
	r.pass("clock", "this clock and the service's clock agree")
	r.warn("runs", "Acknowledge them.", "these wait to be acknowledged: %s", summarizeNames([]string{"a", "b", "c", "d", "e"}))
	r.fail("address", "Start it.", "nobody answers")
	var out strings.Builder
	if err := r.writeTable(&out); err != nil {
		t.Fatal(err)
	}
	want := `RESULT   CHECK    FOUND
ok       clock    this clock and the service's clock agree
warning  runs     these wait to be acknowledged: a, b, c and 2 others
                  -> Acknowledge them.
failure  address  nobody answers
                  -> Start it.
1 ok, 1 warning, 1 failure
`
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
}

// Messages left in a pool while no execution has jobs belong to ended executions, so they are no
// finding.
func TestServiceCheck_IgnoresMessagesOfEndedExecutions(t *testing.T) {
	routes := healthyService()
	routes["GET /blackboard/jobs"] = response{200, `{"items":[{"pool":"edge","queue":true,"waiting":7,"claimed":0,"claims":[]},{"pool":"lab","queue":true,"waiting":1,"claimed":0,"claims":[]}]}`}
	for active, want := range map[string]int{
		``: 0, `{"id":"x1","state":"WAITING","waiting":{"kind":"INPUT"}}`: 0, `{"id":"x1","state":"RUNNING","waiting":{"kind":"RETRY"}}`: 2, `{"id":"x1","state":"RUNNING","waiting":null}`: 2,
	} {
		routes["GET /workflow-execution/active"] = response{200, `{"items":[` + active + `],"nextPageToken":null}`}
		report, err := runDoctor(t, routes, 0)
		if err != nil || report.count(Warning) != want {
			t.Errorf("%s: %v, %+v", active, err, report.Findings)
		}
	}
}
