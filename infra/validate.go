package infra

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

const (
	// maxEnvironmentBytes is the most that the variables of a function may take, as JSON.
	maxEnvironmentBytes = 4096

	// placeholderBytes stands for what only the deployment knows: the URL of a queue, whose
	// name may have 80 characters, or the name of a table.
	placeholderBytes = 130

	maxFunctionName = 64
	maxQueueName    = 80
)

// placeholderRE is how CDK writes what only the deployment knows.
var placeholderRE = regexp.MustCompile(`\$\{Token\[[^\]]*\]\}`)

// environmentBytes is about what a text takes in an environment.
func environmentBytes(text string) int {
	written, err := json.Marshal(placeholderRE.ReplaceAllString(text, strings.Repeat("x", placeholderBytes)))
	if err != nil {
		panic(err) // strings always marshal
	}
	return len(written)
}

// validateEnvironment is whether Lambda takes the variables of a function, with a count of the
// largest if it does not.
func validateEnvironment(vars map[string]string) error {
	all, of := 1, map[string]int{}
	for key, value := range vars {
		of[key] = environmentBytes(value)
		all += environmentBytes(key) + of[key] + 2
	}
	if all <= maxEnvironmentBytes {
		return nil
	}
	keys := slices.SortedFunc(maps.Keys(of), func(a, b string) int {
		if of[a] != of[b] {
			return of[b] - of[a]
		}
		return strings.Compare(a, b)
	})
	var largest []string
	for _, key := range keys[:min(3, len(keys))] {
		largest = append(largest, fmt.Sprintf("%s %d", key, of[key]))
	}
	return fmt.Errorf("its environment is about %d bytes, and Lambda takes %d; the largest: %s", all, maxEnvironmentBytes, strings.Join(largest, ", "))
}

// sizedText is a field that becomes a variable of its own.
type sizedText struct {
	field, value string
	maxBytes     int // bytes
}

// validateTexts is whether texts take no more of an environment than each may.
func validateTexts(all []sizedText) error {
	for _, t := range all {
		if n := environmentBytes(t.value); n > t.maxBytes {
			return fmt.Errorf("%s takes %d bytes: want at most %d, since Lambda takes %d of all variables of a function", t.field, n, t.maxBytes, maxEnvironmentBytes)
		}
	}
	return nil
}

// validateFunctionName is whether Lambda takes a function's name.
func validateFunctionName(name string) error {
	return validateLength("function", name, maxFunctionName)
}

// validateQueueName is whether SQS takes a queue's name.
func validateQueueName(name string) error { return validateLength("queue", name, maxQueueName) }

func validateLength(of, name string, limit int) error {
	if len(name) > limit {
		return fmt.Errorf("the name of the %s, %s, has %d characters, and AWS takes %d: shorten the pool or the name prefix", of, name, len(name), limit)
	}
	return nil
}
