package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
)

// response is what a route says.
type response struct {
	status int
	body   string
}

func problemResponse(status int, code string) response {
	return response{status, fmt.Sprintf(`{"status":%d,"code":%q,"detail":"because"}`, status, code)}
}

// healthyService is a service with which nothing is wrong, by method and path.
func healthyService() map[string]response {
	none := response{200, `{"items":[],"nextPageToken":null}`}
	return map[string]response{
		"GET /health":                       {200, `{}`},
		"GET /version":                      {200, `{"version":"1.2.0","commit":"","go":""}`},
		"GET /workflow-execution":           none,
		"POST /workflow-execution":          problemResponse(400, "invalid"),
		"POST /workflow-definition/publish": problemResponse(400, "invalid"),
		"POST /entities/import":             problemResponse(400, "invalid"),
		"POST /workflow-execution/" + unknownExecutionID + "/cancel": problemResponse(404, "not_found"),
		"POST /dead-letters/redrive":                                 problemResponse(400, "invalid"),
		"GET /dead-letters":                                          {200, `{"items":[{"queue":"lifecycle","messages":0,"complete":true,"letters":[]}],"nextPageToken":null}`},
		"GET /sweep":                                                 {200, `{"asOf":"2026-11-21T12:00:00Z","executions":[],"workers":[],"schedules":[],"complete":true}`},
		"GET /workers":                                               none,
		"GET /blackboard/jobs":                                       {200, `{"items":[{"pool":"default","waiting":0,"claimed":0,"delayed":0,"claims":[]}],"nextPageToken":null}`},
	}
}

// runDoctor is the verb on a service, its clock off by so much.
func runDoctor(t *testing.T, routes map[string]response, off time.Duration) (Report, error) {
	t.Helper()
	return runDoctorAt(t, routes, off, func() time.Time { return testTime }, Options{})
}

func runDoctorAt(t *testing.T, routes map[string]response, off time.Duration, now func() time.Time, set Options, args ...string) (Report, error) {
	t.Helper()
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := routes[r.Method+" "+r.URL.Path]
		if special, is := routes["state "+r.URL.Query().Get("state")]; is {
			a = special
		}
		if !ok {
			t.Errorf("asked for %s %s", r.Method, r.URL)
			a = problemResponse(404, "not_found")
		}
		w.Header().Set("Date", testTime.Add(off).Format(http.TimeFormat))
		w.WriteHeader(a.status)
		fmt.Fprint(w, a.body)
	}))
	defer at.Close()
	var report Report
	shell := render.Env{
		NewClientWith: func(adjust func(*client.Options)) (*client.Client, error) {
			o := client.Options{URL: at.URL, HTTP: at.Client()}
			adjust(&o)
			return client.New(o)
		},
		JSON: func() bool { return true },
		PrintJSON: func(_ *cobra.Command, v any) error {
			raw, err := json.Marshal(v)
			if err != nil {
				return err
			}
			return json.Unmarshal(raw, &report)
		},
	}
	set.Version, set.Now, set.ExitError = "1.2.0", now, func(error) error { return errFailed }
	if set.URLSet == nil {
		set.URLSet = func(*cobra.Command) bool { return true }
	}
	cmd := NewCommand(shell, set)
	cmd.SetArgs(append([]string{}, args...))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	return report, err
}

var errFailed = errors.New("something has failed")

func TestServiceCheck_PassesHealthyService(t *testing.T) {
	report, err := runDoctor(t, healthyService(), 2*time.Second)
	if err != nil || !report.OK || len(report.Findings) != 9 {
		t.Errorf("%v, %+v", err, report)
	}
	for _, f := range report.Findings {
		if f.Level != OK {
			t.Errorf("%+v", f)
		}
	}
}

// Whatever is wrong with a service is found by its own check, and only there; a
// failure fails the command, a warning does not.
func TestServiceCheck_FindsEachDefect(t *testing.T) {
	due := func(since string) response {
		return response{200, `{"asOf":"2026-11-21T12:00:00Z","executions":[{"execution":"x1","state":"RUNNING","since":"` + since + `"}],"workers":[],"schedules":[],"complete":true}`}
	}
	for _, c := range []struct {
		name  string
		off   time.Duration
		route string
		says  response
		check string
		level Level
		want  string
	}{
		{"not ready", 0, "GET /health", problemResponse(503, "unavailable"), "address", Failure, "does not take requests"},
		{"something else", 0, "GET /health", response{404, "<html>"}, "address", Failure, "not as a Lockstep service does"},
		{"a slow clock", -4 * time.Minute, "", response{}, "clock", Warning, "differ by 4m0s"},
		{"a fast clock", 6 * time.Minute, "", response{}, "clock", Failure, "differ by 6m0s"},
		{"nobody", 0, "GET /workflow-execution", response{401, `{"message":"Unauthorized"}`}, "rights", Failure, "does not know the caller"},
		{"no right at all", 0, "GET /workflow-execution", response{403, `{"message":"Forbidden"}`}, "rights", Failure, "may not even read"},
		{"no right to start", 0, "POST /workflow-execution", response{403, `{"message":"Forbidden"}`}, "rights", Warning, "may read, publish, import, cancel, redrive, and may not start runs"},
		{"a right that is not known", 0, "POST /workflow-execution", problemResponse(500, "internal"), "rights", Failure, "whether the caller may start runs is not known"},
		{"another release", 0, "GET /version", response{200, `{"version":"1.3.0"}`}, "version", Warning, "the command is 1.2.0, the service 1.3.0"},
		{"dead letters", 0, "GET /dead-letters", response{200, `{"items":[{"queue":"jobs-x","messages":3,"complete":true,"letters":[]}]}`}, "dead letters", Failure, "3 messages of this tenant on jobs-x"},
		{"dead letters not to be seen", 0, "GET /dead-letters", response{403, `{"message":"Forbidden"}`}, "dead letters", Warning, "may not ask"},
		{"late", 0, "GET /sweep", due("2026-11-21T11:55:00Z"), "sweep", Warning, "5m0s at run x1"},
		{"very late", 0, "GET /sweep", due("2026-11-21T11:00:00Z"), "sweep", Failure, "1h0m0s at run x1"},
		{"a sweep that fails", 0, "GET /sweep", problemResponse(500, "internal"), "sweep", Failure, "because"},
		{"a silent worker", 0, "GET /workers", response{200, `{"items":[{"id":"w1","state":"OFFLINE","pool":"p"},{"id":"w2","state":"ONLINE","pool":"p"}]}`}, "workers", Warning, "w1 (OFFLINE)"},
		{"a pool without a queue", 0, "GET /blackboard/jobs", response{200, `{"items":[{"pool":"edge","waiting":null,"claimed":null,"claims":[]}]}`}, "pools", Warning, "edge, which has no queue"},
		{"work that is left lying", 0, "GET /blackboard/jobs", response{200, `{"items":[{"pool":"edge","waiting":7,"claimed":0,"claims":[]}]}`}, "pools", Warning, "7 messages for the pool edge"},
		{"a run for people", 0, "state FAILED_UNSAFE", response{200, `{"items":[{"id":"x9","state":"FAILED_UNSAFE","waiting":{"kind":"ACKNOWLEDGE"}}]}`}, "runs", Warning, "x9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			routes := healthyService()
			if c.route != "" {
				routes[c.route] = c.says
			}
			report, err := runDoctor(t, routes, c.off)
			if (err != nil) != (c.level == Failure) || report.OK != (c.level != Failure) {
				t.Errorf("ended with %v, ok %v", err, report.OK)
			}
			found := false
			for _, f := range report.Findings {
				switch {
				case f.Level == OK:
				case f.Check == c.check && f.Level == c.level && strings.Contains(f.Message, c.want) && f.Action != "":
					found = true
				default:
					t.Errorf("it says too: %+v", f)
				}
			}
			if !found {
				t.Errorf("not found: %+v", report.Findings)
			}
		})
	}
}

func TestServiceCheck_WarnsOfSlowService(t *testing.T) {
	at := testTime
	slowly := func() time.Time { at = at.Add(3 * time.Second); return at }
	report, err := runDoctorAt(t, healthyService(), 0, slowly, Options{})
	if f := report.Findings[0]; err != nil || f.Check != "address" || f.Level != Warning || !strings.Contains(f.Message, "3s") {
		t.Errorf("%v, %+v", err, f)
	}
}

// The stack says where the service is, unless the caller does.
func TestCommand_ChoosesServiceAddress(t *testing.T) {
	unnamed := func(*cobra.Command) bool { return false }
	open := func(c AWS, err error) func(context.Context) (AWS, error) {
		return func(context.Context) (AWS, error) { return c, err }
	}
	now := func() time.Time { return testTime }
	lost := healthyAWS()
	lost.stack.Outputs = nil
	elsewhere := healthyAWS()
	elsewhere.stack.Outputs["EngineApiUrl"] = "http://127.0.0.1:1"
	for _, c := range []struct {
		name  string
		set   Options
		check string
		level Level
		says  string
	}{
		{"both are well", Options{OpenAWS: open(healthyAWS(), nil)}, "runs", OK, "none waits"},
		{"no credentials", Options{OpenAWS: open(nil, errors.New("there are no credentials"))}, "credentials", Failure, "there are no credentials"},
		{"the stack does not say where", Options{OpenAWS: open(lost, nil), URLSet: unnamed}, "address", Warning, "was not asked"},
		{"where the stack says", Options{OpenAWS: open(elsewhere, nil), URLSet: unnamed}, "address", Failure, "http://127.0.0.1:1"},
		{"where the caller says", Options{OpenAWS: open(elsewhere, nil)}, "address", OK, "answers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			report, err := runDoctorAt(t, healthyService(), 0, now, c.set, "--stack", "S")
			if (err != nil) != (c.level == Failure) {
				t.Errorf("ended with %v", err)
			}
			for _, f := range report.Findings {
				if f.Check == c.check && f.Level == c.level && strings.Contains(f.Message, c.says) {
					return
				}
			}
			t.Errorf("not found: %+v", report.Findings)
		})
	}
}

// What is due for the moment is no news, however much it is.
func TestServiceCheck_IgnoresJustDueTimers(t *testing.T) {
	routes := healthyService()
	routes["GET /sweep"] = response{200, `{"asOf":"2026-11-21T12:00:00Z","executions":[{"execution":"x1","state":"RUNNING","since":"2026-11-21T11:59:00Z"}],"workers":[],"schedules":[],"complete":true}`}
	if report, err := runDoctor(t, routes, 0); err != nil || !report.OK {
		t.Errorf("%v, %+v", err, report)
	}
}

func TestReport_WritesTable(t *testing.T) {
	r := &Report{}
	r.pass("clock", "this clock and the service's agree")
	r.warn("runs", "Look at it.", "somebody has to look at %s", summarizeNames([]string{"a", "b", "c", "d", "e"}))
	r.fail("address", "Start it.", "nobody answers")
	var out strings.Builder
	if err := r.writeTable(&out); err != nil {
		t.Fatal(err)
	}
	want := `RESULT   CHECK    FOUND
ok       clock    this clock and the service's agree
warning  runs     somebody has to look at a, b, c and 2 others
                  -> Look at it.
failure  address  nobody answers
                  -> Start it.
1 ok, 1 warning, 1 failure
`
	if out.String() != want {
		t.Errorf("it reads\n%s", out.String())
	}
}
