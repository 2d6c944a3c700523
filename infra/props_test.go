package infra

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// x86ELFHeader is the ELF header of a program for x86_64, without a body.
var x86ELFHeader = "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9) + "\x02\x00\x3e\x00\x01\x00\x00\x00" + strings.Repeat("\x00", 40)

func TestEngineProps_ValidateNamesField(t *testing.T) {
	dir := t.TempDir()
	if err := writeDummyFunctions(dir); err != nil {
		t.Fatal(err)
	}
	incomplete := t.TempDir()
	if err := writeDummyFunctions(incomplete); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(incomplete, topology.FunctionWorker, "bootstrap")); err != nil {
		t.Fatal(err)
	}
	built := t.TempDir()
	if err := errors.Join(writeDummyFunctions(built), os.WriteFile(filepath.Join(built, "VERSION"), []byte("v1\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	wrongArch := t.TempDir()
	if err := writeDummyFunctions(wrongArch); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(wrongArch, topology.FunctionAPI, "bootstrap"), []byte(x86ELFHeader), 0o755); err != nil {
		t.Fatal(err)
	}
	for want, p := range map[string]EngineProps{
		"":                                                   {FunctionsDir: dir},
		`stage "Prod"`:                                       {FunctionsDir: dir, Stage: "Prod"},
		`stage "a-stage-with-too-`:                           {FunctionsDir: dir, Stage: "a-stage-with-too-long-a-name"},
		`architecture "arm"`:                                 {FunctionsDir: dir, Architecture: "arm"},
		`log level "verbose"`:                                {FunctionsDir: dir, LogLevel: "verbose"},
		`concurrency of "api"`:                               {FunctionsDir: dir, Concurrency: map[string]int{"api": 5}},
		"concurrency of worker is 1:":                        {FunctionsDir: dir, Concurrency: map[string]int{"worker": 1}},
		`name prefix "acme-"`:                                {FunctionsDir: dir, NamePrefix: "acme-"},
		"stage prod cannot be local":                         {FunctionsDir: dir, Local: true},
		`boundary "arn:aws:iam::1:x"`:                        {FunctionsDir: dir, PermissionsBoundary: "arn:aws:iam::1:x"},
		`boundary "{\"name\":\"x\"}"`:                        {FunctionsDir: dir, PermissionsBoundary: `{"name":"x"}`},
		`network: want a subnet`:                             {FunctionsDir: dir, WorkerNetwork: &Network{Subnets: []string{"subnet-0a1b2c3d"}}},
		`network: "vpc-1" is not`:                            {FunctionsDir: dir, WorkerNetwork: &Network{Subnets: []string{"vpc-1"}, SecurityGroups: []string{"sg-0a1b2c3d"}}},
		`"0a1b2c3d" is not the id of`:                        {FunctionsDir: dir, WorkerNetwork: &Network{Subnets: []string{"subnet-0a1b2c3d"}, SecurityGroups: []string{"0a1b2c3d"}}},
		`domain "https://a.example"`:                         {FunctionsDir: dir, Domain: &Domain{Name: "https://a.example", CertificateARN: certificate}},
		`certificate "": want`:                               {FunctionsDir: dir, Domain: &Domain{Name: "a.example"}},
		"a local engine has none":                            {FunctionsDir: dir, Stage: "dev", Local: true, Domain: &Domain{Name: "a.example", CertificateARN: certificate}},
		"locks is \"\": want the names":                      {FunctionsDir: dir, ExistingTables: map[string]string{"executions": "exe", "jobs": "job"}},
		"the table of jobs and of lo":                        {FunctionsDir: dir, ExistingTables: map[string]string{"executions": "exe", "jobs": "job", "locks": "job", "registry": "reg"}},
		`there is no table "lokcs"`:                          {FunctionsDir: dir, ExistingTables: map[string]string{"executions": "exe", "jobs": "job", "locks": "loc", "registry": "reg", "lokcs": "loc"}},
		"read scopes [r]: without":                           {FunctionsDir: dir, JWTAuth: &JWTAuth{Issuer: "https://id.example", Audience: []string{"a"}, ReadScopes: []string{"r"}}},
		`tokens of "http://plain"`:                           {FunctionsDir: dir, JWTAuth: &JWTAuth{Issuer: "http://plain", Audience: []string{"a"}}},
		"for []: want the issuer":                            {FunctionsDir: dir, JWTAuth: &JWTAuth{Issuer: "https://id.example"}},
		"warm throughput of 100 reads":                       {FunctionsDir: dir, WarmThroughput: Capacity{Read: 100, Write: 4000}},
		"write capacity is -1":                               {FunctionsDir: dir, Capacity: Capacity{Write: -1}},
		"lock age is -5":                                     {FunctionsDir: dir, Thresholds: Thresholds{LockAge: -5}},
		"burst is -1":                                        {FunctionsDir: dir, Burst: -1},
		"config takes 2049 bytes":                            {FunctionsDir: dir, Config: strings.Repeat("x", 2047)},
		"allow hosts takes 10":                               {FunctionsDir: dir, AllowHosts: []string{strings.Repeat("x", 1024)}},
		"CORS origins takes 5":                               {FunctionsDir: dir, CORSOrigins: []string{"https://" + strings.Repeat("x", 512)}},
		"sealed key":                                         {FunctionsDir: dir, SealedKey: "c2VjcmV0"},
		"token keys":                                         {FunctionsDir: dir, TokenKeys: "c2VjcmV0"},
		`secrets "hunter2"`:                                  {FunctionsDir: dir, Secrets: "hunter2"},
		"could read the token keys":                          {FunctionsDir: dir, Secrets: "secretsmanager:lockstep/", TokenKeys: "arn:aws:secretsmanager:eu-west-1:123456789012:secret:lockstep/token-keys-AbCdEf"},
		"open answers":                                       {FunctionsDir: dir, OpenAnswers: true},
		`the Bus "a b" is no name`:                           {FunctionsDir: dir, EventSources: []EventSource{{Bus: "a b", Sources: []string{"a"}}}},
		"say whose events come":                              {FunctionsDir: dir, EventSources: []EventSource{{Bus: "default"}}},
		`the source "*" of the bus default`:                  {FunctionsDir: dir, EventSources: []EventSource{{Bus: "default", Sources: []string{"*"}}}},
		"EventBridge accepts 2048":                           {FunctionsDir: dir, EventSources: []EventSource{{Bus: "default", Sources: slices.Repeat([]string{"a"}, 200)}}},
		`the Tenant "a/b"`:                                   {FunctionsDir: dir, EventSources: []EventSource{{Bus: "default", Sources: []string{"a"}, Tenant: "a/b"}}},
		"EventSources has 21 entries":                        {FunctionsDir: dir, EventSources: slices.Repeat([]EventSource{{Bus: "default", Sources: []string{"a"}}}, 21)},
		`token address "lockstep.example"`:                   {FunctionsDir: dir, TokenKeys: tokenKeysSecret, TokenAddress: "lockstep.example"},
		`token address "https://lockstep.example"`:           {FunctionsDir: dir, TokenAddress: "https://lockstep.example"},
		"open triggers":                                      {FunctionsDir: dir, OpenTriggers: true},
		"tenant claim takes 1":                               {FunctionsDir: dir, JWTAuth: &JWTAuth{Issuer: "https://id.example", Audience: []string{"a"}, TenantClaim: strings.Repeat("x", 128)}},
		`CORS origins: "*"`:                                  {FunctionsDir: dir, CORSOrigins: []string{"*"}},
		`CORS origins: "https://a/b"`:                        {FunctionsDir: dir, CORSOrigins: []string{"https://a/b"}},
		`version "v2": the functions`:                        {FunctionsDir: built, Version: "v2"},
		"and the architecture is arm":                        {FunctionsDir: wrongArch},
		"errors is -2":                                       {FunctionsDir: dir, Thresholds: Thresholds{Errors: -2}},
		filepath.Join("worker", "bootstrap") + " is missing": {FunctionsDir: incomplete},
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
		"":                         {Pool: "reports", CodeDir: code},
		`pool "a b"`:               {Pool: "a b", CodeDir: code},
		`pool "print-dlq"`:         {Pool: "print-dlq", CodeDir: code},
		`pool "1st"`:               {Pool: "1st", Polled: true},
		`pool "a--b"`:              {Pool: "a--b", Polled: true},
		`region "EU"`:              {Pool: "a", Region: "EU", Polled: true},
		"want exactly one of Cod":  {Pool: "reports"},
		"concurrency is 1001":      {Pool: "reports", CodeDir: code, Concurrency: 1001},
		"timeout 901":              {Pool: "reports", CodeDir: code, Timeout: 901},
		"only be set with CodeDir": {Pool: "reports", Polled: true, Concurrency: 5},
		"bootstrap is missing":     {Pool: "reports", CodeDir: dir},
		"environment: the env":     {Pool: "reports", CodeDir: code, Environment: map[string]string{"RULES": strings.Repeat("x", 4096)}},
	} {
		err := p.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

// The default version is that of the programs, so that the tags and the engine version
// recorded in executions agree.
func TestEngineProps_VersionMatchesPrograms(t *testing.T) {
	dir := t.TempDir()
	if got := (EngineProps{FunctionsDir: dir}).withDefaults().Version; got != "dev" {
		t.Errorf("without a VERSION file the version is %q", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "VERSION"), []byte("v1.2.3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := (EngineProps{FunctionsDir: dir}).withDefaults().Version; got != "v1.2.3" {
		t.Errorf("version %q, want v1.2.3", got)
	}
}

// writeProgram creates a directory with bootstrap: the text, or an ELF header for the
// machine if the text is empty.
func writeProgram(t *testing.T, machine elf.Machine, text string) string {
	t.Helper()
	dir, content := t.TempDir(), []byte(text)
	if text == "" {
		var b bytes.Buffer
		head := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 64}
		copy(head.Ident[:], elf.ELFMAG)
		head.Ident[elf.EI_CLASS], head.Ident[elf.EI_DATA], head.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
		if err := binary.Write(&b, binary.LittleEndian, head); err != nil {
			t.Fatal(err)
		}
		content = b.Bytes()
	}
	if err := os.WriteFile(filepath.Join(dir, "bootstrap"), content, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestValidateProgram_ChecksArchitecture(t *testing.T) {
	for _, c := range []struct{ dir, architecture, want string }{
		{writeProgram(t, elf.EM_AARCH64, ""), archARM, ""},
		{writeProgram(t, elf.EM_X86_64, ""), archX86, ""},
		{writeProgram(t, elf.EM_AARCH64, ""), "", ""},
		{writeProgram(t, elf.EM_AARCH64, ""), archX86, "is built for EM_AARCH64, and the architecture is x86_64"},
		{writeProgram(t, elf.EM_X86_64, ""), archARM, "is built for EM_X86_64, and the architecture is arm64"},
		{writeProgram(t, 0, "#!/bin/sh\n"), archARM, ""},
		{t.TempDir(), archARM, "is missing"},
	} {
		err := validateProgram(c.dir, c.architecture)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("on %q: want an error with %q, got %v", c.architecture, c.want, err)
		}
	}
}

func TestBuiltVersion_ReadsVersionFile(t *testing.T) {
	dir := t.TempDir()
	if got := builtVersion(dir); got != "" {
		t.Errorf("without a VERSION file: %q", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "VERSION"), []byte("v1.2.3-4-gabc\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := builtVersion(dir); got != "v1.2.3-4-gabc" {
		t.Errorf("got %q", got)
	}
}

func TestValidateEnvironment_LimitsSize(t *testing.T) {
	// {"K":"..."} takes eight bytes more than the text.
	for n, fits := range map[int]bool{maxEnvironmentBytes - 8: true, maxEnvironmentBytes - 7: false} {
		if err := validateEnvironment(map[string]string{"K": strings.Repeat("x", n)}); (err == nil) != fits {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	// A placeholder counts with the longest possible value, and a quote counts twice.
	if got, want := environmentBytes(`{"pool":"${Token[TOKEN.1234]}"}`), 2+len(`{\"pool\":\"\"}`)+placeholderBytes; got != want {
		t.Errorf("a pool takes %d bytes, want %d", got, want)
	}
	err := validateEnvironment(map[string]string{"A": "a", "BIG": strings.Repeat("b", 3000), "LARGE": strings.Repeat("c", 2000), "SOME": "some"})
	if err == nil || !strings.Contains(err.Error(), "the largest: BIG 3002, LARGE 2002, SOME 6") {
		t.Errorf("got %v", err)
	}
}

func TestValidateNames_LimitLength(t *testing.T) {
	for n, fits := range map[int]bool{64: true, 65: false} {
		if err := validateFunctionName(strings.Repeat("f", n)); (err == nil) != fits {
			t.Errorf("a function of %d characters: %v", n, err)
		}
	}
	for n, fits := range map[int]bool{80: true, 81: false} {
		if err := validateQueueName(strings.Repeat("q", n)); (err == nil) != fits {
			t.Errorf("a queue of %d characters: %v", n, err)
		}
	}
}

// Only with the option Telemetry do functions have OTEL variables and layers, including
// those of pools that the engine creates.
func TestTelemetry_IsOptional(t *testing.T) {
	for name, x := range stacks() {
		enabled := name == "dev"
		for _, f := range x.byType(t, "AWS::Lambda::Function") {
			env := f.environment()
			var found []string
			for key := range env {
				if strings.HasPrefix(key, "OTEL_") {
					found = append(found, key)
				}
			}
			switch {
			case !enabled && (len(found) > 0 || f.property("Layers") != nil):
				t.Errorf("%s of stack %s: %v, layers %v", f.ID, name, found, f.property("Layers"))
			case enabled && (len(found) != 2 || env["OTEL_EXPORTER_OTLP_ENDPOINT"] != "http://localhost:4318" || env["OTEL_TRACES_SAMPLER"] != "parentbased_traceidratio"):
				t.Errorf("%s of stack %s: %v", f.ID, name, env)
			case enabled && (len(asList(f.property("Layers"))) != 1 || render(asList(f.property("Layers"))[0]) != collectorLayer):
				t.Errorf("%s of stack %s: layers %v", f.ID, name, f.property("Layers"))
			}
		}
	}
}

func TestTelemetry_ValidateNamesField(t *testing.T) {
	dir := t.TempDir()
	if err := writeDummyFunctions(dir); err != nil {
		t.Fatal(err)
	}
	const endpoint = "http://localhost:4318"
	for want, telemetry := range map[string]Telemetry{
		"":                           {Endpoint: endpoint, Environment: map[string]string{"OTEL_TRACES_SAMPLER": "always_on"}},
		"the endpoint":               {Endpoint: "localhost:4318"},
		"without credentials":        {Endpoint: "https://ann:secret@h"},
		"OTEL_EXPORTER_OTLP_HEADERS": {Endpoint: endpoint, Environment: map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "secret"}},
		"AWS_REGION":                 {Endpoint: endpoint, Environment: map[string]string{"AWS_REGION": "secret"}},
		"in its own field":           {Endpoint: endpoint, Environment: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "secret"}},
	} {
		p := EngineProps{FunctionsDir: dir, Telemetry: &telemetry}
		err := p.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

// The documentation names the variable that the construct sets.
func TestObservabilityPage_NamesOTLPVariable(t *testing.T) {
	page, err := os.ReadFile("../docs/observability.md")
	if err != nil || !strings.Contains(string(page), "`"+envOTLPEndpoint+"`") || !strings.Contains(string(page), "`Telemetry`") {
		t.Errorf("the page does not say how to enable spans: %v", err)
	}
}
