package expr

import (
	"regexp"
	"strings"
)

var (
	unexpectedRE = regexp.MustCompile(`^Syntax error: (?:mismatched input|extraneous input|no viable alternative at input|token recognition error at:) '(.*?)'(?: expecting .*)?$`)
	missingRE    = regexp.MustCompile(`^Syntax error: missing ('[^']*'|\S+) at '(.*)'$`)
)

// plainMessage says what the parser has met instead of what its grammar would have
// liked, which is a list of everything that CEL has.
func plainMessage(message string) string {
	const end = "<EOF>"
	if m := missingRE.FindStringSubmatch(message); m != nil {
		if m[2] == end {
			return m[1] + " is missing at the end of the expression"
		}
		return m[1] + " is missing before '" + m[2] + "'"
	}
	if m := unexpectedRE.FindStringSubmatch(message); m != nil {
		switch token := strings.TrimSpace(m[1]); token {
		case end:
			return "unexpected end of the expression"
		case "=":
			return "unexpected '='; equal is =="
		default:
			return "unexpected '" + token + "'"
		}
	}
	return strings.Replace(message, "Syntax error: ", "it cannot be read: ", 1)
}
