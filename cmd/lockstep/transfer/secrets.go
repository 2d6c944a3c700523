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

// secretNameRE are names of headers and of parameters whose values let somebody in. A
// file of an export is passed around more freely than a stage's credentials should
// be.
var secretNameRE = regexp.MustCompile(`(?i)auth|cookie|credential|key|password|secret|session|signature|token|^\??sig$`)

// parameterPrefix stands before the name of a parameter of the address, where things
// are named that are withheld. No header's name has it.
const parameterPrefix = "?"

// secretFields names what of a block looks secret, by its name or by the form of its
// value: headers, and parameters in the address.
func secretFields(b workflow.Block) []string {
	if b.HTTP == nil {
		return nil
	}
	var names []string
	for _, name := range sortedKeys(b.HTTP.Headers) {
		if value := b.HTTP.Headers[name]; secretNameRE.MatchString(name) || observe.RedactText(value) != value {
			names = append(names, name)
		}
	}
	_, query, _ := strings.Cut(b.HTTP.URL, "?")
	for piece := range strings.SplitSeq(query, "&") {
		name, value := parseParameter(piece)
		if !slices.Contains(names, name) && isSecretParameter(name, value) {
			names = append(names, name)
		}
	}
	return names
}

// parseParameter is a piece of a query: the name by which it is withheld, and its value.
func parseParameter(piece string) (name, value string) {
	name, value, _ = strings.Cut(piece, "=")
	return parameterPrefix + unescape(name), unescape(value)
}

// isSecretParameter reports whether a parameter lets somebody in. To some servers a semicolon
// begins another parameter, whose name is judged too.
func isSecretParameter(name, value string) bool {
	return secretNameRE.MatchString(name) || strings.Contains(value, ";") && secretNameRE.MatchString(value) || observe.RedactText(value) != value
}

func unescape(text string) string {
	if plain, err := url.QueryUnescape(text); err == nil {
		return plain
	}
	return text
}

// withholdFields is a block without what is named so. The rest of it stays as it is, byte
// for byte.
func withholdFields(b workflow.Block, names []string) workflow.Block {
	if b.HTTP == nil || len(names) == 0 {
		return b
	}
	copied := *b.HTTP
	copied.Headers = nil
	for name, value := range b.HTTP.Headers {
		if slices.Contains(names, name) {
			continue
		}
		if copied.Headers == nil {
			copied.Headers = map[string]string{}
		}
		copied.Headers[name] = value
	}
	if base, query, has := strings.Cut(b.HTTP.URL, "?"); has {
		pieces := slices.DeleteFunc(strings.Split(query, "&"), func(piece string) bool {
			name, _ := parseParameter(piece)
			return slices.Contains(names, name)
		})
		if copied.URL = base; len(pieces) > 0 {
			copied.URL += "?" + strings.Join(pieces, "&")
		}
	}
	b.HTTP = &copied
	return b
}

// withheldHint says what has to be written into a line for what was withheld of it.
func withheldHint(name string) string {
	if parameter, is := strings.CutPrefix(name, parameterPrefix); is {
		return fmt.Sprintf("the parameter %s of the address was not exported: write %s=VALUE into the query of http.url of the line", parameter, url.QueryEscape(parameter))
	}
	return fmt.Sprintf("the header %s was not exported: write its value into http.headers of the line", name)
}
