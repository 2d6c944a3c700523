package infra

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// x86ELFHeader is the head of a program for x86_64, of which there is no more.
var x86ELFHeader = "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9) + "\x02\x00\x3e\x00\x01\x00\x00\x00" + strings.Repeat("\x00", 40)

func TestEngineProps_ValidateNamesField(t *testing.T) {
	dir := t.TempDir()
	if err := writeDummyFunctions(dir); err != nil {
		t.Fatal(err)
	}
	gap := t.TempDir()
	if err := writeDummyFunctions(gap); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(gap, topology.FunctionWorker, "bootstrap")); err != nil {
		t.Fatal(err)
	}
	built := t.TempDir()
	if err := errors.Join(writeDummyFunctions(built), os.WriteFile(filepath.Join(built, "VERSION"), []byte("v1\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	foreign := t.TempDir()
	if err := writeDummyFunctions(foreign); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(foreign, topology.FunctionAPI, "bootstrap"), []byte(x86ELFHeader), 0o755); err != nil {
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
		`tokens of "http://plain"`:    {FunctionsDir: dir, JWTAuth: &JWTAuth{Issuer: "http://plain", Audience: []string{"a"}}},
		"for []: want the issuer":     {FunctionsDir: dir, JWTAuth: &JWTAuth{Issuer: "https://id.example"}},
		"write capacity is -1":        {FunctionsDir: dir, Capacity: Capacity{Write: -1}},
		"lock age is -5":              {FunctionsDir: dir, Thresholds: Thresholds{LockAge: -5}},
		"burst is -1":                 {FunctionsDir: dir, Burst: -1},
		"config takes 2049 bytes":     {FunctionsDir: dir, Config: strings.Repeat("x", 2047)},
		"allow hosts takes 10":        {FunctionsDir: dir, AllowHosts: []string{strings.Repeat("x", 1024)}},
		"CORS origins takes 5":        {FunctionsDir: dir, CORSOrigins: []string{"https://" + strings.Repeat("x", 512)}},
		"tenant claim takes 1":        {FunctionsDir: dir, JWTAuth: &JWTAuth{Issuer: "https://id.example", Audience: []string{"a"}, TenantClaim: strings.Repeat("x", 128)}},
		`CORS origins: "*"`:           {FunctionsDir: dir, CORSOrigins: []string{"*"}},
		`CORS origins: "https://a/b"`: {FunctionsDir: dir, CORSOrigins: []string{"https://a/b"}},
		`version "v2": the functions`: {FunctionsDir: built, Version: "v2"},
		"and the architecture is arm": {FunctionsDir: foreign},
		"errors is -2":                {FunctionsDir: dir, Thresholds: Thresholds{Errors: -2}},
		filepath.Join("worker", "bootstrap") + " is missing": {FunctionsDir: gap},
	} {
		err := p.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

func TestNewEngine_PanicsOnInvalidProps(t *testing.T) {
	defer func() {
		if cause := recover(); cause == nil || !strings.Contains(cause.(error).Error(), `engine X: stage "1"`) {
			t.Errorf("panic with %v", cause)
		}
	}()
	NewEngine(nil, "X", &EngineProps{Stage: "1"})
}

func TestWorkerPoolProps_ValidateNamesField(t *testing.T) {
	dir := t.TempDir()
	if err := writeDummyFunctions(dir); err != nil {
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
		"environment: its env":   {Pool: "reports", CodeDir: code, Environment: map[string]string{"RULES": strings.Repeat("x", 4096)}},
	} {
		err := p.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

// The version is that of the programs, so that what the tags say and what a run says
// of the engine that moved it cannot differ.
func TestEngineProps_VersionMatchesPrograms(t *testing.T) {
	dir := t.TempDir()
	if got := (EngineProps{FunctionsDir: dir}).withDefaults().Version; got != "dev" {
		t.Errorf("without a word of theirs it is %q", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "VERSION"), []byte("v1.2.3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := (EngineProps{FunctionsDir: dir}).withDefaults().Version; got != "v1.2.3" {
		t.Errorf("programs of v1.2.3 are deployed as %q", got)
	}
}
