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

	"github.com/lockstep-run/lockstep/cmd/lockstep/upkeep"
	"github.com/lockstep-run/lockstep/shared/client"
)

// answer is what a route says.
type answer struct {
	status int
	body   string
}

func problem(status int, code string) answer {
	return answer{status, fmt.Sprintf(`{"status":%d,"code":%q,"detail":"because"}`, status, code)}
}

// well is a service with which nothing is wrong, by method and path.
func well() map[string]answer {
	none := answer{200, `{"items":[],"nextPageToken":null}`}
	return map[string]answer{
		"GET /health":                                    {200, `{}`},
		"GET /version":                                   {200, `{"version":"1.2.0","commit":"","go":""}`},
		"GET /workflow-execution":                        none,
		"POST /workflow-execution":                       problem(400, "invalid"),
		"POST /workflow-definition/publish":              problem(400, "invalid"),
		"POST /entities/import":                          problem(400, "invalid"),
		"POST /workflow-execution/" + nobody + "/cancel": problem(404, "not_found"),
		"POST /dead-letters/redrive":                     problem(400, "invalid"),
		"GET /dead-letters":                              {200, `{"items":[{"queue":"lifecycle","messages":0,"complete":true,"letters":[]}],"nextPageToken":null}`},
		"GET /sweep":                                     {200, `{"asOf":"2026-11-21T12:00:00Z","executions":[],"workers":[],"schedules":[],"complete":true}`},
		"GET /workers":                                   none,
		"GET /blackboard/jobs":                           {200, `{"items":[{"pool":"default","waiting":0,"claimed":0,"delayed":0,"claims":[]}],"nextPageToken":null}`},
	}
}

// examination is the verb on a service, its clock off by so much.
func examination(t *testing.T, routes map[string]answer, off time.Duration) (Report, error) {
	t.Helper()
	return examinationAt(t, routes, off, func() time.Time { return moment }, Setting{})
}

func examinationAt(t *testing.T, routes map[string]answer, off time.Duration, now func() time.Time, set Setting, args ...string) (Report, error) {
	t.Helper()
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := routes[r.Method+" "+r.URL.Path]
		if special, is := routes["state "+r.URL.Query().Get("state")]; is {
			a = special
		}
		if !ok {
			t.Errorf("asked for %s %s", r.Method, r.URL)
			a = problem(404, "not_found")
		}
		w.Header().Set("Date", moment.Add(off).Format(http.TimeFormat))
		w.WriteHeader(a.status)
		fmt.Fprint(w, a.body)
	}))
	defer at.Close()
	var report Report
	shell := upkeep.Shell{
		Connect: func(adjust func(*client.Options)) (*client.Client, error) {
			o := client.Options{URL: at.URL, HTTP: at.Client()}
			adjust(&o)
			return client.New(o)
		},
		JSON: func() bool { return true },
		Print: func(_ *cobra.Command, v any) error {
			raw, err := json.Marshal(v)
			if err != nil {
				return err
			}
			return json.Unmarshal(raw, &report)
		},
	}
	set.Version, set.Now, set.Failed = "1.2.0", now, func(error) error { return errFailed }
	if set.Named == nil {
		set.Named = func(*cobra.Command) bool { return true }
	}
	cmd := Verb(shell, set)
	cmd.SetArgs(append([]string{}, args...))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	return report, err
}

var errFailed = errors.New("something has failed")

func TestServiceThatIsWell(t *testing.T) {
	report, err := examination(t, well(), 2*time.Second)
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
func TestServiceThatIsNot(t *testing.T) {
	due := func(since string) answer {
		return answer{200, `{"asOf":"2026-11-21T12:00:00Z","executions":[{"execution":"x1","state":"RUNNING","since":"` + since + `"}],"workers":[],"schedules":[],"complete":true}`}
	}
	for _, c := range []struct {
		name  string
		off   time.Duration
		route string
		says  answer
		check string
		level Level
		want  string
	}{
		{"not ready", 0, "GET /health", problem(503, "unavailable"), "address", Failure, "does not take requests"},
		{"something else", 0, "GET /health", answer{404, "<html>"}, "address", Failure, "not as a Lockstep service does"},
		{"a slow clock", -4 * time.Minute, "", answer{}, "clock", Warning, "differ by 4m0s"},
		{"a fast clock", 6 * time.Minute, "", answer{}, "clock", Failure, "differ by 6m0s"},
		{"nobody", 0, "GET /workflow-execution", answer{401, `{"message":"Unauthorized"}`}, "rights", Failure, "does not know the caller"},
		{"no right at all", 0, "GET /workflow-execution", answer{403, `{"message":"Forbidden"}`}, "rights", Failure, "may not even read"},
		{"no right to start", 0, "POST /workflow-execution", answer{403, `{"message":"Forbidden"}`}, "rights", Warning, "may read, publish, import, cancel, redrive, and may not start runs"},
		{"a right that is not known", 0, "POST /workflow-execution", problem(500, "internal"), "rights", Failure, "whether the caller may start runs is not known"},
		{"another release", 0, "GET /version", answer{200, `{"version":"1.3.0"}`}, "version", Warning, "the command is 1.2.0, the service 1.3.0"},
		{"dead letters", 0, "GET /dead-letters", answer{200, `{"items":[{"queue":"jobs-x","messages":3,"complete":true,"letters":[]}]}`}, "dead letters", Failure, "3 messages of this tenant on jobs-x"},
		{"dead letters not to be seen", 0, "GET /dead-letters", answer{403, `{"message":"Forbidden"}`}, "dead letters", Warning, "may not ask"},
		{"late", 0, "GET /sweep", due("2026-11-21T11:55:00Z"), "sweep", Warning, "5m0s at run x1"},
		{"very late", 0, "GET /sweep", due("2026-11-21T11:00:00Z"), "sweep", Failure, "1h0m0s at run x1"},
		{"a sweep that fails", 0, "GET /sweep", problem(500, "internal"), "sweep", Failure, "because"},
		{"a silent worker", 0, "GET /workers", answer{200, `{"items":[{"id":"w1","state":"OFFLINE","pool":"p"},{"id":"w2","state":"ONLINE","pool":"p"}]}`}, "workers", Warning, "w1 (OFFLINE)"},
		{"a pool without a queue", 0, "GET /blackboard/jobs", answer{200, `{"items":[{"pool":"edge","waiting":null,"claimed":null,"claims":[]}]}`}, "pools", Warning, "edge, which has no queue"},
		{"work that is left lying", 0, "GET /blackboard/jobs", answer{200, `{"items":[{"pool":"edge","waiting":7,"claimed":0,"claims":[]}]}`}, "pools", Warning, "7 messages for the pool edge"},
		{"a run for people", 0, "state FAILED_UNSAFE", answer{200, `{"items":[{"id":"x9","state":"FAILED_UNSAFE","waiting":{"kind":"ACKNOWLEDGE"}}]}`}, "runs", Warning, "x9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			routes := well()
			if c.route != "" {
				routes[c.route] = c.says
			}
			report, err := examination(t, routes, c.off)
			if (err != nil) != (c.level == Failure) || report.OK != (c.level != Failure) {
				t.Errorf("ended with %v, ok %v", err, report.OK)
			}
			found := false
			for _, f := range report.Findings {
				switch {
				case f.Level == OK:
				case f.Check == c.check && f.Level == c.level && strings.Contains(f.Says, c.want) && f.Next != "":
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

func TestSlowService(t *testing.T) {
	at := moment
	slowly := func() time.Time { at = at.Add(3 * time.Second); return at }
	report, err := examinationAt(t, well(), 0, slowly, Setting{})
	if f := report.Findings[0]; err != nil || f.Check != "address" || f.Level != Warning || !strings.Contains(f.Says, "3s") {
		t.Errorf("%v, %+v", err, f)
	}
}

// The stack says where the service is, unless the caller does.
func TestStackAndService(t *testing.T) {
	unnamed := func(*cobra.Command) bool { return false }
	open := func(c Cloud, err error) func(context.Context) (Cloud, error) {
		return func(context.Context) (Cloud, error) { return c, err }
	}
	now := func() time.Time { return moment }
	lost := fair()
	lost.stack.Outputs = nil
	elsewhere := fair()
	elsewhere.stack.Outputs["EngineApiUrl"] = "http://127.0.0.1:1"
	for _, c := range []struct {
		name  string
		set   Setting
		check string
		level Level
		says  string
	}{
		{"both are well", Setting{Cloud: open(fair(), nil)}, "runs", OK, "none waits"},
		{"no credentials", Setting{Cloud: open(nil, errors.New("there are no credentials"))}, "credentials", Failure, "there are no credentials"},
		{"the stack does not say where", Setting{Cloud: open(lost, nil), Named: unnamed}, "address", Warning, "was not asked"},
		{"where the stack says", Setting{Cloud: open(elsewhere, nil), Named: unnamed}, "address", Failure, "http://127.0.0.1:1"},
		{"where the caller says", Setting{Cloud: open(elsewhere, nil)}, "address", OK, "answers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			report, err := examinationAt(t, well(), 0, now, c.set, "--stack", "S")
			if (err != nil) != (c.level == Failure) {
				t.Errorf("ended with %v", err)
			}
			for _, f := range report.Findings {
				if f.Check == c.check && f.Level == c.level && strings.Contains(f.Says, c.says) {
					return
				}
			}
			t.Errorf("not found: %+v", report.Findings)
		})
	}
}

// What is due for the moment is no news, however much it is.
func TestSweepInTime(t *testing.T) {
	routes := well()
	routes["GET /sweep"] = answer{200, `{"asOf":"2026-11-21T12:00:00Z","executions":[{"execution":"x1","state":"RUNNING","since":"2026-11-21T11:59:00Z"}],"workers":[],"schedules":[],"complete":true}`}
	if report, err := examination(t, routes, 0); err != nil || !report.OK {
		t.Errorf("%v, %+v", err, report)
	}
}

func TestReportForPeople(t *testing.T) {
	r := &Report{}
	r.good("clock", "this clock and the service's agree")
	r.warn("runs", "Look at it.", "somebody has to look at %s", some([]string{"a", "b", "c", "d", "e"}))
	r.fail("address", "Start it.", "nobody answers")
	var out strings.Builder
	if err := r.write(&out); err != nil {
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
