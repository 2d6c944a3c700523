package infra

import (
	"debug/elf"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	// maxEnvironmentBytes is the maximum size of a function's variables, as JSON.
	maxEnvironmentBytes = 4096

	// placeholderBytes is the assumed size of a value that only the deployment knows: the
	// name of a table, or the URL of a queue, whose name may have 80 characters.
	placeholderBytes = 130

	maxFunctionName = 64
	maxQueueName    = 80
)

// placeholderRE matches CDK's placeholder for a value that only the deployment knows.
var placeholderRE = regexp.MustCompile(`\$\{Token\[[^\]]*\]\}`)

// environmentBytes estimates the size of a text in the environment.
func environmentBytes(text string) int {
	encoded, err := json.Marshal(placeholderRE.ReplaceAllString(text, strings.Repeat("x", placeholderBytes)))
	if err != nil {
		panic(err) // strings always marshal
	}
	return len(encoded)
}

// validateEnvironment checks that Lambda accepts the variables of a function. The error
// names the largest.
func validateEnvironment(vars map[string]string) error {
	total, size := 1, map[string]int{}
	for key, value := range vars {
		size[key] = environmentBytes(value)
		total += environmentBytes(key) + size[key] + 2
	}
	if total <= maxEnvironmentBytes {
		return nil
	}
	keys := slices.SortedFunc(maps.Keys(size), func(a, b string) int {
		if size[a] != size[b] {
			return size[b] - size[a]
		}
		return strings.Compare(a, b)
	})
	var largest []string
	for _, key := range keys[:min(3, len(keys))] {
		largest = append(largest, fmt.Sprintf("%s %d", key, size[key]))
	}
	return fmt.Errorf("the environment is about %d bytes, and Lambda accepts %d; the largest: %s", total, maxEnvironmentBytes, strings.Join(largest, ", "))
}

// sizedText is a field that becomes an environment variable.
type sizedText struct {
	field, value string
	maxBytes     int
}

// validateTexts checks that no text exceeds its limit.
func validateTexts(all []sizedText) error {
	for _, t := range all {
		if n := environmentBytes(t.value); n > t.maxBytes {
			return fmt.Errorf("%s takes %d bytes: want at most %d, since Lambda accepts %d for all variables of a function", t.field, n, t.maxBytes, maxEnvironmentBytes)
		}
	}
	return nil
}

// validateFunctionName checks that Lambda accepts a function's name.
func validateFunctionName(name string) error {
	return validateLength("function", name, maxFunctionName)
}

// validateQueueName checks that SQS accepts a queue's name.
func validateQueueName(name string) error { return validateLength("queue", name, maxQueueName) }

func validateLength(kind, name string, limit int) error {
	if len(name) > limit {
		return fmt.Errorf("the name of the %s, %s, has %d characters, and AWS accepts %d: shorten the pool or the name prefix", kind, name, len(name), limit)
	}
	return nil
}

// The architectures of Lambda functions, as AWS names them.
const (
	archARM = "arm64"
	archX86 = "x86_64"
)

var elfMachines = map[string]elf.Machine{archARM: elf.EM_AARCH64, archX86: elf.EM_X86_64}

// validateProgram checks that a directory contains a function's program for the
// architecture; "" is any. A file that is not ELF, such as a script, is accepted.
func validateProgram(dir, architecture string) error {
	file := filepath.Join(dir, "bootstrap")
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("%s is missing: build the program first", file)
	}
	program, err := elf.Open(file)
	if err != nil {
		return nil //nolint:nilerr // not ELF
	}
	defer func() { _ = program.Close() }()
	if want, known := elfMachines[architecture]; known && program.Machine != want {
		return fmt.Errorf("%s is built for %s, and the architecture is %s: build it for that, or change the architecture", file, program.Machine, architecture)
	}
	return nil
}

// builtVersion returns the version of the programs in a directory, which make dist
// writes to the file VERSION. It is "" if there is no such file.
func builtVersion(dir string) string {
	version, err := os.ReadFile(filepath.Join(dir, "VERSION"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(version))
}

// validateConcurrency checks that AWS accepts a mapping's maximum concurrency.
func validateConcurrency(n int) error {
	if n < 2 || n > 1000 {
		return fmt.Errorf("is %d: want 2 to 1000", n)
	}
	return nil
}

// validateOrigins checks that each text is a web origin.
func validateOrigins(all []string) error {
	for _, origin := range all {
		if err := http.NewCrossOriginProtection().AddTrustedOrigin(origin); err != nil {
			return fmt.Errorf("CORS origins: %q: want scheme://host[:port]", origin)
		}
	}
	return nil
}
