package infra

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// StageProd is the stage whose data is kept: see [EngineProps.Stage].
const StageProd = "prod"

// EngineProps is everything that may be chosen about an engine. The zero value
// of each field means its default.
type EngineProps struct {
	// Stage names the install, such as prod, staging or dev; lower case letters,
	// digits and hyphens. Default: prod. Tables of the stage prod are protected
	// against deletion and outlive the stack; those of other stages go with it.
	Stage string

	// Version is the release that is deployed; it becomes a tag. Default: dev.
	Version string

	// FunctionsDir is the folder with <function>/bootstrap for each function, built
	// for linux and the Architecture. Default: dist/functions.
	FunctionsDir string

	// Architecture of the functions, arm64 or x86_64. Default: arm64.
	Architecture string

	// LogLevel is debug, info, warn or error. Default: info.
	LogLevel string

	// LogRetention is how long logs are kept. Default: three months in the stage
	// prod, one week in others.
	LogRetention awslogs.RetentionDays

	// Config is the engine's configuration file (docs/configuration.md), inline.
	// It holds no secrets. Default: none, which is every default.
	Config string

	// AllowHosts are the hosts, or host:port, that HTTP blocks may name. Default:
	// none, so that a definition cannot make the stock worker call anything.
	AllowHosts []string

	// Concurrency bounds how many invocations of a function its queue causes at a
	// time, by function: lifecycle and worker, 2 to 1000. It is a bound of the
	// mapping; functions reserve nothing. Default: 50 each.
	Concurrency map[string]int

	// RequestsPerSecond and Burst throttle the HTTP interface. Default: 100, 200.
	RequestsPerSecond, Burst int

	// CORSOrigins are the web origins that may call the HTTP interface from a
	// browser. Default: none.
	CORSOrigins []string

	// Tracing sends traces of invocations to X-Ray. Default: off, since it is paid
	// for by the trace.
	Tracing bool

	// AlarmTopic is told when an alarm begins and when it ends. Default: alarms are
	// only shown.
	AlarmTopic awssns.ITopic

	// Thresholds says from when on something is alarming.
	Thresholds Thresholds

	// RunbookURL is the page that alarms refer to, with the anchors of
	// docs/runbooks/README.md. Default: that file in the project's repository.
	RunbookURL string
}

// Thresholds are those of the alarms whose right value depends on the load. The
// others have none to choose: one dead letter or one missed sweep too many is
// one too many.
type Thresholds struct {
	// LookAge is the age in seconds of the oldest message on the lifecycle queue.
	// Default: 1800, because messages may be delayed by up to 15 minutes and one
	// that failed comes back after the queue's visibility time-out.
	LookAge int

	// PackAge is the age in seconds of the oldest message on a pool's queue.
	// Default: 7200, because a message whose function was killed comes back after the
	// queue's visibility time-out of an hour and a half, and the time after which packs
	// that nobody claims end their run is shorter.
	PackAge int

	// Errors is the number of failed invocations of one function, or of answers
	// with a status of 500 or more, in five minutes. Default: 5.
	Errors int

	// Throttles is the number of throttled invocations of one function in five
	// minutes. Default: 1.
	Throttles int
}

const (
	defaultRunbooks    = "https://github.com/lockstep-run/lockstep/blob/main/docs/runbooks/README.md"
	defaultConcurrency = 50

	archARM = "arm64"
	archX86 = "x86_64"
)

var (
	stageForm = regexp.MustCompile(`^[a-z][a-z0-9-]{0,19}$`)
	logLevels = []string{"debug", "info", "warn", "error"}

	// mapped are the functions that a queue invokes.
	mapped = []string{topology.FunctionLifecycle, topology.FunctionWorker}
)

// filled is p with its defaults.
func (p EngineProps) filled() EngineProps {
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
	text(&p.Version, "dev")
	text(&p.FunctionsDir, filepath.Join("dist", "functions"))
	text(&p.Architecture, archARM)
	text(&p.LogLevel, "info")
	text(&p.RunbookURL, defaultRunbooks)
	if p.LogRetention == "" {
		p.LogRetention = awslogs.RetentionDays_ONE_WEEK
		if p.prod() {
			p.LogRetention = awslogs.RetentionDays_THREE_MONTHS
		}
	}
	number(&p.RequestsPerSecond, 100)
	number(&p.Burst, 200)
	number(&p.Thresholds.LookAge, 1800)
	number(&p.Thresholds.PackAge, 7200)
	number(&p.Thresholds.Errors, 5)
	number(&p.Thresholds.Throttles, 1)
	return p
}

func (p EngineProps) prod() bool { return p.Stage == StageProd }

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
	f := p.filled()
	if !stageForm.MatchString(f.Stage) {
		return fmt.Errorf("stage %q: want a lower case letter, then at most 19 letters, digits and hyphens", f.Stage)
	}
	if f.Architecture != archARM && f.Architecture != archX86 {
		return fmt.Errorf("architecture %q: want %s or %s", f.Architecture, archARM, archX86)
	}
	if !slices.Contains(logLevels, f.LogLevel) {
		return fmt.Errorf("log level %q: want one of %s", f.LogLevel, strings.Join(logLevels, ", "))
	}
	for name, n := range f.Concurrency {
		if !slices.Contains(mapped, name) {
			return fmt.Errorf("concurrency of %q: want one of %s", name, strings.Join(mapped, ", "))
		}
		if n < 2 || n > 1000 {
			return fmt.Errorf("concurrency of %s is %d: want 2 to 1000", name, n)
		}
	}
	for name, n := range map[string]int{
		"requests per second": f.RequestsPerSecond, "burst": f.Burst, "look age": f.Thresholds.LookAge,
		"pack age": f.Thresholds.PackAge, "errors": f.Thresholds.Errors, "throttles": f.Thresholds.Throttles,
	} {
		if n < 0 {
			return fmt.Errorf("%s is %d: want a positive number", name, n)
		}
	}
	for _, name := range topology.Functions {
		file := filepath.Join(f.FunctionsDir, name, "bootstrap")
		if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
			return fmt.Errorf("%s is missing: build the functions first", file)
		}
	}
	return nil
}
