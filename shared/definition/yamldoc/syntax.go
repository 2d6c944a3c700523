package yamldoc

import (
	"regexp"
	"strings"
)

// explain says of a message of the library what the author has probably done, by the text in front of the place and
// the line; "" if it is clear, or not known.
func explain(message, line string, column int) string {
	before := strings.TrimRight(line[:min(max(column-1, 0), len(line))], " ")
	switch {
	case strings.Contains(message, `found character '	'`):
		return "lines are indented with spaces, not with tabs"
	case strings.HasPrefix(message, "unexpected key name"):
		return "a space is missing behind a colon"
	case strings.HasSuffix(message, "is a reserved character"):
		return "put the text into quotes"
	case strings.HasPrefix(message, "mapping value is not allowed"):
		return `a text with ": " in it needs quotes, and a line is not indented more than the field above it`
	case strings.HasPrefix(message, "',' or '}' must be specified") && bareToken.MatchString(line):
		return `put "${...}" into quotes: without them, { begins an object`
	case strings.HasPrefix(message, "',' or '}' must be specified"):
		return "a quote of the same kind ends a text: put the text into quotes of the other kind"
	case strings.HasPrefix(message, "value is not allowed") && strings.ContainsAny(lastByte(before), `"'`):
		return `a quote of the same kind ends a text: put the whole value into quotes of the other kind, or on a line of its own below "|-"`
	case strings.HasPrefix(message, "value is not allowed") && strings.ContainsAny(lastByte(before), "]}"):
		return "a value that begins with a bracket ends with it: put the whole value into quotes"
	case strings.HasPrefix(message, "value is not allowed"):
		return "is the line indented like those beside it?"
	}
	return ""
}

// bareToken finds a ${ that begins a value without quotes.
var bareToken = regexp.MustCompile(`[:,\[{]\s*\$\{`)

func lastByte(s string) string { return s[max(len(s)-1, 0):] }
