package bounds

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

const (
	// EnvironmentBytes is the most that the variables of a function may take, as JSON.
	EnvironmentBytes = 4096

	// tokenBytes stands for what only the deployment knows: the URL of a queue, whose
	// name may have 80 characters, or the name of a table.
	tokenBytes = 130

	functionName = 64
	queueName    = 80
)

// token is how CDK writes what only the deployment knows.
var token = regexp.MustCompile(`\$\{Token\[[^\]]*\]\}`)

// Bytes is about what a text takes in an environment.
func Bytes(text string) int {
	written, err := json.Marshal(token.ReplaceAllString(text, strings.Repeat("x", tokenBytes)))
	if err != nil {
		panic(err) // strings always marshal
	}
	return len(written)
}

// Environment is whether Lambda takes the variables of a function, with a count of the
// largest if it does not.
func Environment(vars map[string]string) error {
	all, of := 1, map[string]int{}
	for key, value := range vars {
		of[key] = Bytes(value)
		all += Bytes(key) + of[key] + 2
	}
	if all <= EnvironmentBytes {
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
	return fmt.Errorf("its environment is about %d bytes, and Lambda takes %d; the largest: %s", all, EnvironmentBytes, strings.Join(largest, ", "))
}

// Text is a field that becomes a variable of its own.
type Text struct {
	Field, Value string
	Most         int // bytes
}

// Texts is whether texts take no more of an environment than each may.
func Texts(all []Text) error {
	for _, t := range all {
		if n := Bytes(t.Value); n > t.Most {
			return fmt.Errorf("%s takes %d bytes: want at most %d, since Lambda takes %d of all variables of a function", t.Field, n, t.Most, EnvironmentBytes)
		}
	}
	return nil
}

// FunctionName is whether Lambda takes a function's name.
func FunctionName(name string) error { return length("function", name, functionName) }

// QueueName is whether SQS takes a queue's name.
func QueueName(name string) error { return length("queue", name, queueName) }

func length(of, name string, most int) error {
	if len(name) > most {
		return fmt.Errorf("the name of the %s, %s, has %d characters, and AWS takes %d: shorten the pool or the name prefix", of, name, len(name), most)
	}
	return nil
}
