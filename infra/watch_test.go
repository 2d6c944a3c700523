package infra

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/lockstep-run/lockstep/infra/telemetry"
	"github.com/lockstep-run/lockstep/shared/topology"
)

// watched finds the alarm on a metric of a resource.
func watched(t *testing.T, x *template, r *resource, metric string) *resource {
	t.Helper()
	for _, a := range x.all(t, "AWS::CloudWatch::Alarm") {
		if text(a.at("MetricName")) == metric && x.refers(t, at(list(a.at("Dimensions"))[0], "Value")) == r {
			return a
		}
	}
	t.Errorf("nothing watches %s of %s", metric, r.ID)
	return &resource{}
}

func (r *resource) condition() string {
	parts := []string{text(r.at("Statistic")), text(r.at("ComparisonOperator")), text(r.at("Threshold")), text(r.at("TreatMissingData"))}
	return strings.Join(parts, " ")
}

func TestEveryPartIsWatched(t *testing.T) {
	each(t, func(t *testing.T, x *template) {
		feeds := fed(t, x)
		for _, q := range x.all(t, "AWS::SQS::Queue") {
			if feeds[q.ID] != nil || q.at("RedrivePolicy") != nil {
				watched(t, x, q, "ApproximateAgeOfOldestMessage")
				continue
			}
			// The number visible, for the number sent does not count redriven messages.
			a := watched(t, x, q, "ApproximateNumberOfMessagesVisible")
			if got := a.condition(); got != "Maximum GreaterThanOrEqualToThreshold 1 notBreaching" {
				t.Errorf("%s: %s", a.ID, got)
			}
		}
		for _, f := range x.all(t, "AWS::Lambda::Function") {
			watched(t, x, f, "Errors")
			watched(t, x, f, "Throttles")
		}
		a := watched(t, x, x.one(t, "SweeperFunction"), "Invocations")
		if got := a.condition(); got != "Sum LessThanThreshold 1 breaching" {
			t.Errorf("a sweeper that does not run: %s", got)
		}
		watched(t, x, x.one(t, "Api"), "5xx")
		// What the engine says of its runs bears the name that its functions are given.
		for _, f := range x.all(t, "AWS::Lambda::Function") {
			name := f.env()[topology.EnvDeployment]
			for metric, condition := range map[string]string{
				topology.MetricStuckExecutions: "Maximum GreaterThanOrEqualToThreshold", topology.MetricLockAge: "Maximum GreaterThanOrEqualToThreshold",
				topology.MetricGuardStops: "Sum GreaterThanOrEqualToThreshold 1 notBreaching",
			} {
				found := false
				for _, a := range x.all(t, "AWS::CloudWatch::Alarm") {
					if text(a.at("Namespace"))+" "+text(a.at("MetricName"))+" "+text(a.at("Dimensions")) == "Lockstep "+metric+" Name=deployment,Value="+name {
						found = strings.HasPrefix(a.condition(), condition)
					}
				}
				if name == "" || !found {
					t.Errorf("nothing watches %s of the deployment %q", metric, name)
				}
			}
		}
	})
}

// Every metric of the engine's own that an alarm stands on is one that the engine writes,
// every one that it writes has an alarm, and the page lists them all.
func TestEveryMetricIsWrittenAndWatched(t *testing.T) {
	page, err := os.ReadFile("../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	alarming := map[string]string{} // the runbook by metric
	for _, a := range stacks()["prod"].all(t, "AWS::CloudWatch::Alarm") {
		if text(a.at("Namespace")) == topology.MetricNamespace {
			_, alarming[text(a.at("MetricName"))], _ = strings.Cut(text(a.at("AlarmDescription")), "#")
		}
	}
	if len(alarming) != len(topology.Metrics) {
		t.Errorf("%d metrics and alarms on %v", len(topology.Metrics), alarming)
	}
	written := sources(t, "../shared/engine", "../shared/boot", "../functions")
	rows := 0
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| `") && strings.Count(line, " | ") == 5 {
			rows++
		}
	}
	if rows != len(topology.Metrics) {
		t.Errorf("the page lists %d metrics, want %d", rows, len(topology.Metrics))
	}
	for constant, name := range map[string]string{
		"MetricStuckExecutions": topology.MetricStuckExecutions, "MetricLockAge": topology.MetricLockAge, "MetricGuardStops": topology.MetricGuardStops,
	} {
		m, ok := topology.MetricOf(name)
		row := "| `" + m.Name + "` | " + m.Unit + " | " + m.Says + " | " + m.When + " | " + m.By + " | ["
		switch {
		case !ok || alarming[name] == "":
			t.Errorf("no alarm stands on %s", name)
		case !strings.Contains(written, "topology."+constant+","):
			t.Errorf("nobody writes %s", name)
		case !strings.Contains(string(page), row), !strings.Contains(string(page), "(runbooks/README.md#"+alarming[name]+") |"):
			t.Errorf("the page has no row %s...(runbooks/README.md#%s) |", row, alarming[name])
		}
	}
}

// sources is all Go of some folders but the tests.
func sources(t *testing.T, folders ...string) string {
	t.Helper()
	var all strings.Builder
	for _, folder := range folders {
		if err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			all.Write(source)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

// Lambda passes on every line that a function writes, at whatever level the function is:
// it takes metrics for lines of level INFO.
func TestMetricsPassAtEveryLevel(t *testing.T) {
	for level, want := range map[string]string{"debug": "DEBUG", "info": "INFO", "warn": "INFO", "error": "INFO"} {
		if got := string(telemetry.Passes(level)); got != want {
			t.Errorf("at level %s Lambda passes %s", level, got)
		}
	}
	for stage, want := range map[string]string{"prod": "INFO", "dev": "DEBUG"} {
		for _, f := range stacks()[stage].all(t, "AWS::Lambda::Function") {
			if got := text(f.at("LoggingConfig", "ApplicationLogLevel")); got != want {
				t.Errorf("%s of stage %s: %s, want %s", f.ID, stage, got, want)
			}
		}
	}
}

func TestThresholdsCanBeChosen(t *testing.T) {
	x := stacks()["dev"]
	for id, want := range map[string]string{
		"AlarmLifecycleOld": "11", "AlarmJobsDefaultOld": "12", "AlarmWorkerErrors": "13", "AlarmHttpErrors": "13", "AlarmWorkerThrottles": "14",
		"AlarmLockAge": "15", "AlarmStuckExecutions": "16",
	} {
		if got := text(x.one(t, id).at("Threshold")); got != want {
			t.Errorf("%s: threshold %s, want %s", id, got, want)
		}
	}
}

func TestAlarmsTellTheTopic(t *testing.T) {
	for _, a := range stacks()["prod"].all(t, "AWS::CloudWatch::Alarm") {
		if a.at("AlarmActions") != nil {
			t.Errorf("%s does %v without a topic", a.ID, a.at("AlarmActions"))
		}
	}
	x := stacks()["dev"]
	for _, a := range x.all(t, "AWS::CloudWatch::Alarm") {
		for _, when := range []string{"AlarmActions", "OKActions"} {
			if actions := list(a.at(when)); len(actions) != 1 || x.refers(t, actions[0]).Type != "AWS::SNS::Topic" {
				t.Errorf("%s: %s %v", a.ID, when, a.at(when))
			}
		}
	}
}

// anchor is what a heading is linked by.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ' || r == '-':
			return '-'
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

func TestEveryAlarmHasARunbookAndEveryRunbookAnAlarm(t *testing.T) {
	page, err := os.ReadFile("../docs/runbooks/README.md")
	if err != nil {
		t.Fatal(err)
	}
	var written, used []string
	for line := range strings.Lines(string(page)) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			written = append(written, anchor(strings.TrimSpace(heading)))
		}
	}
	all := append(stacks()["prod"].all(t, "AWS::CloudWatch::Alarm"), stacks()["options"].all(t, "AWS::CloudWatch::Alarm")...)
	for _, a := range append(all, stacks()["tenant"].all(t, "AWS::CloudWatch::Alarm")...) {
		_, name, ok := strings.Cut(text(a.at("AlarmDescription")), " Runbook: "+defaultRunbooks+"#")
		if !ok {
			t.Errorf("%s names no runbook: %s", a.ID, text(a.at("AlarmDescription")))
		}
		used = append(used, name)
	}
	slices.Sort(written)
	slices.Sort(used)
	if used = slices.Compact(used); !slices.Equal(written, used) {
		t.Errorf("runbooks %v, alarms refer to %v", written, used)
	}
	if got := text(stacks()["dev"].one(t, "AlarmHttpErrors").at("AlarmDescription")); !strings.Contains(got, "https://wiki.example/runbooks#api-errors") {
		t.Errorf("a runbook of one's own is not referred to: %s", got)
	}
}

func TestDashboardShowsEveryPart(t *testing.T) {
	for _, name := range []string{"prod", "options"} {
		t.Run(name, func(t *testing.T) { showsEveryPart(t, stacks()[name]) })
	}
}

func showsEveryPart(t *testing.T, x *template) {
	body := text(x.one(t, "Dashboard").at("DashboardBody"))
	for _, metric := range []string{topology.MetricStuckExecutions, topology.MetricLockAge, topology.MetricGuardStops} {
		if !strings.Contains(body, metric) {
			t.Errorf("%s is not on the dashboard", metric)
		}
	}
	for _, kind := range []string{
		"AWS::SQS::Queue", "AWS::Lambda::Function", "AWS::DynamoDB::Table", "AWS::CloudWatch::Alarm", "AWS::ApiGatewayV2::Api",
	} {
		for _, r := range x.all(t, kind) {
			if !strings.Contains(body, "${"+r.ID) {
				t.Errorf("%s is not on the dashboard", r.ID)
			}
		}
	}
}

// The variable for the log's level is the only one whose name does not come from
// topology: the configuration defines it.
func TestConfigurationKnowsTheLogLevel(t *testing.T) {
	page, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "| `log.level` | `"+envLogLevel+"` |") {
		t.Errorf("no key of the configuration is set by %s", envLogLevel)
	}
}
