package infra

import (
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
		`name prefix "acme-"`:         {FunctionsDir: dir, NamePrefix: "acme-"},
		"stage prod cannot be local":  {FunctionsDir: dir, Local: true},
		`tokens of "http://plain"`:    {FunctionsDir: dir, Tokens: &Tokens{Issuer: "http://plain", Audience: []string{"a"}}},
		"for []: want the issuer":     {FunctionsDir: dir, Tokens: &Tokens{Issuer: "https://id.example"}},
		"write capacity is -1":        {FunctionsDir: dir, Capacity: Capacity{Write: -1}},
		"lock age is -5":              {FunctionsDir: dir, Thresholds: Thresholds{LockAge: -5}},
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

func TestValidateNamesWhatIsWrongWithAPool(t *testing.T) {
	dir := t.TempDir()
	if err := dummies(dir); err != nil {
		t.Fatal(err)
	}
	code := filepath.Join(dir, topology.FunctionWorker)
	for want, p := range map[string]WorkerPoolProps{
		"":                       {Pool: "reports", CodeDir: code},
		`pool "a b"`:             {Pool: "a b", CodeDir: code},
		"want one of a code dir": {Pool: "reports"},
		"concurrency is 1001":    {Pool: "reports", CodeDir: code, Concurrency: 1001},
		"timeout 901":            {Pool: "reports", CodeDir: code, Timeout: 901},
		"own affair":             {Pool: "reports", Polled: true, Concurrency: 5},
		"bootstrap is missing":   {Pool: "reports", CodeDir: dir},
	} {
		err := p.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}
