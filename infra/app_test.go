package infra

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/topology"
)

func TestValidateNamesWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	if err := dummies(dir); err != nil {
		t.Fatal(err)
	}
	gap := t.TempDir()
	if err := dummies(gap); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(gap, topology.FunctionWorker, "bootstrap")); err != nil {
		t.Fatal(err)
	}
	for want, p := range map[string]EngineProps{
		"":                            {FunctionsDir: dir},
		`stage "Prod"`:                {FunctionsDir: dir, Stage: "Prod"},
		`stage "a-stage-with-too-`:    {FunctionsDir: dir, Stage: "a-stage-with-too-long-a-name"},
		`architecture "arm"`:          {FunctionsDir: dir, Architecture: "arm"},
		`log level "verbose"`:         {FunctionsDir: dir, LogLevel: "verbose"},
		`concurrency of "api"`:        {FunctionsDir: dir, Concurrency: map[string]int{"api": 5}},
		"concurrency of worker is 1:": {FunctionsDir: dir, Concurrency: map[string]int{"worker": 1}},
		"burst is -1":                 {FunctionsDir: dir, Burst: -1},
		"errors is -2":                {FunctionsDir: dir, Thresholds: Thresholds{Errors: -2}},
		filepath.Join("worker", "bootstrap") + " is missing": {FunctionsDir: gap},
	} {
		err := p.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

func TestNewEngineRefusesWrongProps(t *testing.T) {
	defer func() {
		if cause := recover(); cause == nil || !strings.Contains(cause.(error).Error(), `engine X: stage "1"`) {
			t.Errorf("panic with %v", cause)
		}
	}()
	NewEngine(nil, "X", &EngineProps{Stage: "1"})
}

func TestSynthesize(t *testing.T) {
	functions, out := t.TempDir(), t.TempDir()
	if err := dummies(functions); err != nil {
		t.Fatal(err)
	}
	// What the CDK command line hands over; a setting wins over it.
	t.Setenv("CDK_CONTEXT_JSON", `{"stage":"from-context","version":"9.9.9","alarmTopicArn":"arn:aws:sns:eu-west-1:123456789012:pager"}`)
	file, err := Synthesize(Settings{Stage: "prod", FunctionsDir: functions, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(out, "Lockstep-prod.template.json"); file != want {
		t.Errorf("template in %s, want %s", file, want)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var x template
	if err := json.Unmarshal(content, &x); err != nil {
		t.Fatal(err)
	}
	alarm := x.all(t, "AWS::CloudWatch::Alarm")[0]
	if got := text(alarm.at("AlarmActions")); got != "arn:aws:sns:eu-west-1:123456789012:pager" {
		t.Errorf("alarms tell %q", got)
	}
	if got := text(alarm.at("Tags")); !strings.Contains(got, "Value=9.9.9") {
		t.Errorf("tags %s", got)
	}
	manifest, err := os.ReadFile(filepath.Join(out, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(manifest), `"terminationProtection": true`) {
		t.Error("the stack of prod may be deleted by mistake")
	}
}

func TestSynthesizeAnswersWithAnError(t *testing.T) {
	functions := t.TempDir()
	if err := dummies(functions); err != nil {
		t.Fatal(err)
	}
	for want, s := range map[string]Settings{
		"bootstrap is missing": {FunctionsDir: filepath.Join(functions, "nowhere")},
		"stage":                {FunctionsDir: functions, Stage: "!"},
		// This one only CDK finds wrong, and panics.
		"synthesis: ": {FunctionsDir: functions, StackName: "under_score"},
	} {
		s.Out = t.TempDir()
		if file, err := Synthesize(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %q, %v", want, file, err)
		}
	}
}
