package infra

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// findAlarm returns the alarm on a metric of a resource.
func findAlarm(t *testing.T, x *template, r *resource, metric string) *resource {
	t.Helper()
	for _, a := range x.byType(t, "AWS::CloudWatch::Alarm") {
		if render(a.property("MetricName")) == metric && x.referenced(t, propertyOf(asList(a.property("Dimensions"))[0], "Value")) == r {
			return a
		}
	}
	t.Errorf("no alarm on %s of %s", metric, r.ID)
	return &resource{}
}

func (r *resource) alarmCondition() string {
	parts := []string{render(r.property("Statistic")), render(r.property("ComparisonOperator")), render(r.property("Threshold")), render(r.property("TreatMissingData"))}
	return strings.Join(parts, " ")
}

func TestAlarms_CoverEveryResource(t *testing.T) {
	forEngineStacks(t, func(t *testing.T, x *template) {
		consumers := functionsByQueue(t, x)
		for _, q := range x.byType(t, "AWS::SQS::Queue") {
			if consumers[q.ID] != nil || q.property("RedrivePolicy") != nil {
				findAlarm(t, x, q, "ApproximateAgeOfOldestMessage")
				continue
			}
			// The number of visible messages, since the number sent does not count those that
			// SQS moves.
			a := findAlarm(t, x, q, "ApproximateNumberOfMessagesVisible")
			if got := a.alarmCondition(); got != "Maximum GreaterThanOrEqualToThreshold 1 notBreaching" {
				t.Errorf("%s: %s", a.ID, got)
			}
		}
		for _, f := range x.byType(t, "AWS::Lambda::Function") {
			findAlarm(t, x, f, "Errors")
			findAlarm(t, x, f, "Throttles")
		}
		a := findAlarm(t, x, x.byID(t, "SweeperFunction"), "Invocations")
		if got := a.alarmCondition(); got != "Sum LessThanThreshold 1 breaching" {
			t.Errorf("a sweeper that does not run: %s", got)
		}
		findAlarm(t, x, x.byID(t, "Api"), "5xx")
		// The engine's own metrics have the deployment name of its functions.
		for _, f := range x.byType(t, "AWS::Lambda::Function") {
			name := f.environment()[topology.EnvDeployment]
			for metric, condition := range map[string]string{
				topology.MetricStuckExecutions: "Maximum GreaterThanOrEqualToThreshold", topology.MetricLockAge: "Maximum GreaterThanOrEqualToThreshold",
				topology.MetricGuardStops: "Sum GreaterThanOrEqualToThreshold 1 notBreaching", topology.MetricFailedUnsafe: "Sum GreaterThanOrEqualToThreshold 1 notBreaching",
				topology.MetricFailedSafe: "Sum GreaterThanOrEqualToThreshold", topology.MetricUnclaimed: "Sum GreaterThanOrEqualToThreshold 1 notBreaching",
				topology.MetricFailedWakeups: "Sum GreaterThanOrEqualToThreshold", topology.MetricFailedPacks: "Sum GreaterThanOrEqualToThreshold 1 notBreaching",
			} {
				found := false
				for _, a := range x.byType(t, "AWS::CloudWatch::Alarm") {
					if render(a.property("Namespace"))+" "+render(a.property("MetricName"))+" "+render(a.property("Dimensions")) == "Lockstep "+metric+" Name=deployment,Value="+name {
						found = strings.HasPrefix(a.alarmCondition(), condition)
					}
				}
				if name == "" || !found {
					t.Errorf("no alarm on %s of the deployment %q", metric, name)
				}
			}
		}
	})
}

// Every alarm on the engine's own metrics has a metric that the engine writes, every such
// metric has an alarm, and docs/observability.md lists them all.
func TestMetrics_AreWrittenAndAlarmed(t *testing.T) {
	page, err := os.ReadFile("../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	runbooks := map[string]string{} // by metric
	for _, a := range stacks()["prod"].byType(t, "AWS::CloudWatch::Alarm") {
		if render(a.property("Namespace")) == topology.MetricNamespace {
			_, runbooks[render(a.property("MetricName"))], _ = strings.Cut(render(a.property("AlarmDescription")), "#")
		}
	}
	if len(runbooks) != len(topology.Metrics) {
		t.Errorf("%d metrics and alarms on %v", len(topology.Metrics), runbooks)
	}
	written := readSources(t, "../shared/engine", "../shared/boot", "../functions")
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
		"MetricFailedUnsafe": topology.MetricFailedUnsafe, "MetricFailedSafe": topology.MetricFailedSafe, "MetricUnclaimed": topology.MetricUnclaimed,
		"MetricFailedWakeups": topology.MetricFailedWakeups, "MetricFailedPacks": topology.MetricFailedPacks,
	} {
		m, ok := topology.LookupMetric(name)
		row := "| `" + m.Name + "` | " + m.Unit + " | " + m.Description + " | " + m.WrittenWhen + " | " + m.WrittenBy + " | ["
		switch {
		case !ok || runbooks[name] == "":
			t.Errorf("no alarm on %s", name)
		case !strings.Contains(written, "topology."+constant+","):
			t.Errorf("no code writes %s", name)
		case !strings.Contains(string(page), row), !strings.Contains(string(page), "(runbooks/README.md#"+runbooks[name]+") |"):
			t.Errorf("the page has no row %s...(runbooks/README.md#%s) |", row, runbooks[name])
		}
	}
}

// readSources returns the Go sources of some directories, without tests.
func readSources(t *testing.T, dirs ...string) string {
	t.Helper()
	var all strings.Builder
	for _, dir := range dirs {
		if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
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

// Lambda must pass on the metrics, which are lines of level INFO, at every log level.
func TestLogLevel_KeepsMetricLines(t *testing.T) {
	for level, want := range map[string]string{"debug": "DEBUG", "info": "INFO", "warn": "INFO", "error": "INFO"} {
		if got := string(lambdaLogLevel(level)); got != want {
			t.Errorf("at level %s Lambda passes %s", level, got)
		}
	}
	for stage, want := range map[string]string{"prod": "INFO", "dev": "DEBUG"} {
		for _, f := range stacks()[stage].byType(t, "AWS::Lambda::Function") {
			if got := render(f.property("LoggingConfig", "ApplicationLogLevel")); got != want {
				t.Errorf("%s of stage %s: %s, want %s", f.ID, stage, got, want)
			}
		}
	}
}

func TestThresholds_AreConfigurable(t *testing.T) {
	x := stacks()["dev"]
	for id, want := range map[string]string{
		"AlarmLifecycleOld": "11", "AlarmJobsDefaultOld": "12", "AlarmWorkerErrors": "13", "AlarmHttpErrors": "13", "AlarmWorkerThrottles": "14",
		"AlarmLockAge": "15", "AlarmStuckExecutions": "16", "AlarmFailedSafe": "17", "AlarmFailedWakeups": "18", "AlarmTableLocksThrottles": "19",
	} {
		if got := render(x.byID(t, id).property("Threshold")); got != want {
			t.Errorf("%s: threshold %s, want %s", id, got, want)
		}
	}
}

func TestAlarms_NotifyTopic(t *testing.T) {
	for _, a := range stacks()["prod"].byType(t, "AWS::CloudWatch::Alarm") {
		if a.property("AlarmActions") != nil {
			t.Errorf("%s has actions %v without a topic", a.ID, a.property("AlarmActions"))
		}
	}
	x := stacks()["dev"]
	for _, a := range x.byType(t, "AWS::CloudWatch::Alarm") {
		for _, when := range []string{"AlarmActions", "OKActions"} {
			if actions := asList(a.property(when)); len(actions) != 1 || x.referenced(t, actions[0]).Type != "AWS::SNS::Topic" {
				t.Errorf("%s: %s %v", a.ID, when, a.property(when))
			}
		}
	}
}

// What can wait for working hours is notified apart from what cannot.
func TestAlarms_HaveSeverity(t *testing.T) {
	x := stacks()["restored"]
	count := map[string]int{}
	for _, a := range x.byType(t, "AWS::CloudWatch::Alarm") {
		kind, _, _ := strings.Cut(render(a.property("AlarmDescription")), ":")
		count[kind]++
		if got := render(a.property("AlarmActions")); got != map[string]string{"Critical": pagerARN, "Warning": mailARN}[kind] {
			t.Errorf("%s (%s) notifies %s", a.ID, kind, got)
		}
	}
	if count["Critical"] == 0 || count["Warning"] == 0 || len(count) != 2 {
		t.Errorf("severities %v", count)
	}
	for id, want := range map[string]string{"AlarmFailedUnsafe": "Critical", "AlarmUnclaimed": "Critical", "AlarmStuckExecutions": "Critical", "AlarmFailedSafe": "Warning", "AlarmLockAge": "Warning"} {
		if got := render(x.byID(t, id).property("AlarmDescription")); !strings.HasPrefix(got, want+": ") {
			t.Errorf("%s: %s", id, got)
		}
	}
}

// Throttled reads and writes of a table and of each of its indexes raise the alarm of the table.
func TestAlarms_SeeThrottledTables(t *testing.T) {
	for _, stack := range []string{"prod", "restored"} {
		x := stacks()[stack]
		for _, role := range topology.Tables {
			a := x.byID(t, "AlarmTable"+pascalCase(role)+"Throttles")
			watched := map[string]bool{}
			sum := ""
			for _, q := range asList(a.property("Metrics")) {
				if expression := render(propertyOf(q, "Expression")); expression != "" {
					sum = expression
					continue
				}
				m := propertyOf(q, "MetricStat", "Metric")
				index := ""
				for _, d := range asList(propertyOf(m, "Dimensions")) {
					switch value := propertyOf(d, "Value"); render(propertyOf(d, "Name")) {
					case "TableName":
						if stack == "restored" && render(value) != existingTables[role] || stack == "prod" && !x.referenced(t, value).hasID("Table"+pascalCase(role)) {
							t.Errorf("%s: %s watches %s", stack, a.ID, render(value))
						}
					case "GlobalSecondaryIndexName":
						index = render(value)
					}
				}
				if render(propertyOf(m, "Namespace")) == "AWS/DynamoDB" && render(propertyOf(q, "MetricStat", "Stat")) == "Sum" {
					watched[render(propertyOf(m, "MetricName"))+" "+index] = true
				}
			}
			want := 2 * (1 + len(topology.Indexes[role]))
			if len(watched) != want || strings.Count(sum, "FILL(m") != want {
				t.Errorf("%s: %s adds up %s of %v", stack, a.ID, sum, watched)
			}
			for _, index := range append([]topology.Index{{}}, topology.Indexes[role]...) {
				for _, name := range []string{"ReadThrottleEvents", "WriteThrottleEvents"} {
					if !watched[name+" "+index.Name] {
						t.Errorf("%s: %s does not watch %s of %q", stack, a.ID, name, index.Name)
					}
				}
			}
		}
	}
}

// An alarm comes before what it warns of, with the defaults of the configuration.
func TestThresholds_ComeFirst(t *testing.T) {
	page, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	x := stacks()["prod"]
	for id, setting := range map[string]string{"AlarmJobsDefaultOld": "job.unclaimed", "AlarmLockAge": "lock.wait"} {
		m := regexp.MustCompile("\\| `" + regexp.QuoteMeta(setting) + "` \\| `[A-Z_]+` \\| `([^`]+)` ").FindSubmatch(page)
		if m == nil {
			t.Fatalf("no setting %s", setting)
		}
		end, err := time.ParseDuration(string(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		if threshold := x.byID(t, id).property("Threshold").(float64); threshold > end.Seconds()/2 {
			t.Errorf("%s is raised after %v s, and %s ends executions after %v", id, threshold, setting, end)
		}
	}
	// The times after which a delivery is tried again add up to a day.
	if threshold := x.byID(t, "AlarmHooksOutOld").property("Threshold").(float64); threshold >= 24*3600 {
		t.Errorf("the age of deliveries is noticed after %v s", threshold)
	}
}

// headingAnchor returns the anchor of a Markdown heading.
func headingAnchor(heading string) string {
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

func TestAlarms_MatchRunbooks(t *testing.T) {
	page, err := os.ReadFile("../docs/runbooks/README.md")
	if err != nil {
		t.Fatal(err)
	}
	var headings, used []string
	for line := range strings.Lines(string(page)) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			headings = append(headings, headingAnchor(strings.TrimSpace(heading)))
		}
	}
	all := append(stacks()["prod"].byType(t, "AWS::CloudWatch::Alarm"), stacks()["options"].byType(t, "AWS::CloudWatch::Alarm")...)
	for _, a := range append(all, stacks()["tenant"].byType(t, "AWS::CloudWatch::Alarm")...) {
		_, name, ok := strings.Cut(render(a.property("AlarmDescription")), " Runbook: "+defaultRunbooks+"#")
		if !ok {
			t.Errorf("%s has no runbook: %s", a.ID, render(a.property("AlarmDescription")))
		}
		used = append(used, name)
	}
	slices.Sort(headings)
	slices.Sort(used)
	if used = slices.Compact(used); !slices.Equal(headings, used) {
		t.Errorf("runbooks %v, alarms refer to %v", headings, used)
	}
	if got := render(stacks()["dev"].byID(t, "AlarmHttpErrors").property("AlarmDescription")); !strings.Contains(got, "https://wiki.example/runbooks#api-errors") {
		t.Errorf("the alarm does not link to RunbookURL: %s", got)
	}
}

func TestDashboard_ShowsEveryResource(t *testing.T) {
	for _, name := range []string{"prod", "options"} {
		t.Run(name, func(t *testing.T) { checkDashboard(t, stacks()[name]) })
	}
}

func checkDashboard(t *testing.T, x *template) {
	body := render(x.byID(t, "Dashboard").property("DashboardBody"))
	for _, metric := range topology.Metrics {
		if !strings.Contains(body, metric.Name) {
			t.Errorf("%s is not on the dashboard", metric.Name)
		}
	}
	for _, kind := range []string{
		"AWS::SQS::Queue", "AWS::Lambda::Function", "AWS::DynamoDB::Table", "AWS::CloudWatch::Alarm", "AWS::ApiGatewayV2::Api",
	} {
		for _, r := range x.byType(t, kind) {
			if !strings.Contains(body, "${"+r.ID) {
				t.Errorf("%s is not on the dashboard", r.ID)
			}
		}
	}
}

// The variable for the log level is the only one whose name does not come from topology:
// the configuration defines it.
func TestConfiguration_DefinesLogLevelVariable(t *testing.T) {
	page, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "| `log.level` | `"+envLogLevel+"` |") {
		t.Errorf("%s is not the variable of log.level", envLogLevel)
	}
}
