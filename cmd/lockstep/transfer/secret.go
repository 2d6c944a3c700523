package transfer

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// secretRE are names of headers and of parameters whose values let somebody in. A
// file of an export is passed around more freely than a stage's credentials should
// be.
var secretRE = regexp.MustCompile(`(?i)auth|cookie|credential|key|password|secret|session|signature|token|^\??sig$`)

// parameterOf stands before the name of a parameter of the address, where things
// are named that are withheld. No header's name has it.
const parameterOf = "?"

// secrets names what of a block looks secret, by its name or by the form of its
// value: headers, and parameters in the address.
func secrets(b workflow.Block) []string {
	if b.HTTP == nil {
		return nil
	}
	var names []string
	for _, name := range sortedKeys(b.HTTP.Headers) {
		if value := b.HTTP.Headers[name]; secretRE.MatchString(name) || observe.Clean(value) != value {
			names = append(names, name)
		}
	}
	_, query, _ := strings.Cut(b.HTTP.URL, "?")
	for piece := range strings.SplitSeq(query, "&") {
		name, value := parameter(piece)
		if !slices.Contains(names, name) && secret(name, value) {
			names = append(names, name)
		}
	}
	return names
}

// parameter is a piece of a query: the name by which it is withheld, and its value.
func parameter(piece string) (name, value string) {
	name, value, _ = strings.Cut(piece, "=")
	return parameterOf + unescaped(name), unescaped(value)
}

// secret reports whether a parameter lets somebody in. To some servers a semicolon
// begins another parameter, whose name is judged too.
func secret(name, value string) bool {
	return secretRE.MatchString(name) || strings.Contains(value, ";") && secretRE.MatchString(value) || observe.Clean(value) != value
}

func unescaped(text string) string {
	if plain, err := url.QueryUnescape(text); err == nil {
		return plain
	}
	return text
}

// without is a block without what is named so. The rest of it stays as it is, byte
// for byte.
func without(b workflow.Block, names []string) workflow.Block {
	if b.HTTP == nil || len(names) == 0 {
		return b
	}
	open := *b.HTTP
	open.Headers = nil
	for name, value := range b.HTTP.Headers {
		if slices.Contains(names, name) {
			continue
		}
		if open.Headers == nil {
			open.Headers = map[string]string{}
		}
		open.Headers[name] = value
	}
	if base, query, has := strings.Cut(b.HTTP.URL, "?"); has {
		kept := slices.DeleteFunc(strings.Split(query, "&"), func(piece string) bool {
			name, _ := parameter(piece)
			return slices.Contains(names, name)
		})
		if open.URL = base; len(kept) > 0 {
			open.URL += "?" + strings.Join(kept, "&")
		}
	}
	b.HTTP = &open
	return b
}

// wanted says what has to be written into a line for what was withheld of it.
func wanted(name string) string {
	if parameter, is := strings.CutPrefix(name, parameterOf); is {
		return fmt.Sprintf("the parameter %s of the address was not exported: write %s=VALUE into the query of http.url of the line", parameter, url.QueryEscape(parameter))
	}
	return fmt.Sprintf("the header %s was not exported: write its value into http.headers of the line", name)
}
