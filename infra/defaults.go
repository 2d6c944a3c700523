package infra

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"

	"github.com/lockstep-run/lockstep/shared/topology"
)

const (
	defaultRunbooks    = "https://github.com/lockstep-run/lockstep/blob/main/docs/runbooks/README.md"
	defaultConcurrency = 50
)

var (
	stageRE      = regexp.MustCompile(`^[a-z][a-z0-9-]{0,19}$`)
	namePrefixRE = regexp.MustCompile(`^[a-z][a-z0-9-]{0,28}[a-z0-9]$`)
	logLevels    = []string{"debug", "info", "warn", "error"}

	// queueFunctions are the functions that a queue invokes.
	queueFunctions = []string{topology.FunctionLifecycle, topology.FunctionWorker}
)

// withDefaults is p with its defaults.
func (p EngineProps) withDefaults() EngineProps {
	text := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	number := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	text(&p.Stage, StageProd)
	text(&p.FunctionsDir, filepath.Join("dist", "functions"))
	text(&p.Version, builtVersion(p.FunctionsDir))
	text(&p.Version, "dev")
	text(&p.Architecture, archARM)
	text(&p.LogLevel, "info")
	text(&p.RunbookURL, defaultRunbooks)
	if p.LogRetention == "" {
		p.LogRetention = awslogs.RetentionDays_ONE_WEEK
		if p.keepsData() {
			p.LogRetention = awslogs.RetentionDays_THREE_MONTHS
		}
	}
	number(&p.RequestsPerSecond, 100)
	number(&p.Burst, 200)
	number(&p.Thresholds.WakeupAge, 1800)
	number(&p.Thresholds.PackAge, 7200)
	number(&p.Thresholds.Errors, 5)
	number(&p.Thresholds.Throttles, 1)
	number(&p.Thresholds.LockAge, 1800)
	number(&p.Thresholds.StuckExecutions, 1)
	return p
}

// keepsData is whether the install's data is worth more than its stack.
func (p EngineProps) keepsData() bool {
	if p.KeepData != nil {
		return *p.KeepData
	}
	return p.Stage == "" || p.Stage == StageProd
}

// concurrency is the bound of the mapping that invokes a function.
func (p EngineProps) concurrency(function string) int {
	if n, ok := p.Concurrency[function]; ok {
		return n
	}
	return defaultConcurrency
}

// Validate says what is wrong with the props, naming the field, before anything
// is made of them.
func (p *EngineProps) Validate() error {
	f := p.withDefaults()
	if !stageRE.MatchString(f.Stage) {
		return fmt.Errorf("stage %q: want a lower case letter, then at most 19 letters, digits and hyphens", f.Stage)
	}
	if f.NamePrefix != "" && !namePrefixRE.MatchString(f.NamePrefix) {
		return fmt.Errorf("name prefix %q: want a lower case letter, then at most 29 letters, digits and hyphens, no hyphen last", f.NamePrefix)
	}
	if f.Architecture != archARM && f.Architecture != archX86 {
		return fmt.Errorf("architecture %q: want %s or %s", f.Architecture, archARM, archX86)
	}
	if !slices.Contains(logLevels, f.LogLevel) {
		return fmt.Errorf("log level %q: want one of %s", f.LogLevel, strings.Join(logLevels, ", "))
	}
	if f.Local && f.Stage == StageProd {
		return fmt.Errorf("stage %s cannot be local: a local engine lets everybody in", StageProd)
	}
	if t := f.JWTAuth; t != nil && (!strings.HasPrefix(t.Issuer, "https://") || len(t.Audience) == 0) {
		return fmt.Errorf("tokens of %q for %v: want the issuer's https URL and an audience", t.Issuer, t.Audience)
	}
	if built := builtVersion(f.FunctionsDir); built != "" && built != f.Version {
		return fmt.Errorf("version %q: the functions in %s say that they are %q: leave it out, or build them as that", f.Version, f.FunctionsDir, built)
	}
	if err := cmp.Or(f.Telemetry.Validate(), f.validateNumbers(), f.validateTextSizes(), validateOrigins(f.CORSOrigins)); err != nil {
		return err
	}
	for _, name := range topology.Functions {
		if err := validateProgram(filepath.Join(f.FunctionsDir, name), f.Architecture); err != nil {
			return err
		}
	}
	return nil
}

// validateTextSizes checks the props that go into an environment as they are. The bounds leave
// half of it to the names of tables and queues, further pools included.
func (p EngineProps) validateTextSizes() error {
	claim := ""
	if p.JWTAuth != nil {
		claim = p.JWTAuth.TenantClaim
	}
	return validateTexts([]sizedText{
		{field: "config", value: p.Config, maxBytes: 2048}, {field: "allow hosts", value: strings.Join(p.AllowHosts, ","), maxBytes: 1024},
		{field: "CORS origins", value: strings.Join(p.CORSOrigins, ","), maxBytes: 512}, {field: "tenant claim", value: claim, maxBytes: 128},
	})
}

// validateNumbers checks the props that are numbers.
func (p EngineProps) validateNumbers() error {
	for name, n := range p.Concurrency {
		if !slices.Contains(queueFunctions, name) {
			return fmt.Errorf("concurrency of %q: want one of %s", name, strings.Join(queueFunctions, ", "))
		}
		if err := validateConcurrency(n); err != nil {
			return fmt.Errorf("concurrency of %s %w", name, err)
		}
	}
	for name, n := range map[string]int{
		"requests per second": p.RequestsPerSecond, "burst": p.Burst, "look age": p.Thresholds.WakeupAge,
		"pack age": p.Thresholds.PackAge, "errors": p.Thresholds.Errors, "throttles": p.Thresholds.Throttles,
		"lock age": p.Thresholds.LockAge, "stuck": p.Thresholds.StuckExecutions,
		"read capacity": p.Capacity.Read, "write capacity": p.Capacity.Write,
	} {
		if n < 0 {
			return fmt.Errorf("%s is %d: want a positive number", name, n)
		}
	}
	return nil
}
