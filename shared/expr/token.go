package expr

import (
	"bytes"
	"encoding/json"
	"strings"
)

// part is a stretch of a string: text as it is, or the source of a token.
type part struct {
	text  string
	token bool
}

// EachToken calls seen for every token of a JSON value, compiling none.
func EachToken(raw json.RawMessage, visitToken func(source string)) {
	d := json.NewDecoder(bytes.NewReader(raw))
	for {
		t, err := d.Token()
		if err != nil {
			return
		}
		s, _ := t.(string)
		parts, _ := split(s)
		for _, p := range parts {
			if p.token {
				visitToken(p.text)
			}
		}
	}
}

// split finds the ${...} tokens of a string. $${ is the text ${. Braces,
// quotes and comments inside an expression are followed, so that its own maps and
// strings do not end it. ok is false if a token is not closed.
func split(s string) (parts []part, ok bool) {
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			parts = append(parts, part{text: text.String()})
			text.Reset()
		}
	}
	for len(s) > 0 {
		at := strings.Index(s, "${")
		if at < 0 {
			text.WriteString(s)
			break
		}
		if at > 0 && s[at-1] == '$' {
			text.WriteString(s[:at-1] + "${")
			s = s[at+2:]
			continue
		}
		text.WriteString(s[:at])
		flush()
		end := closingBrace(s[at+2:])
		if end < 0 {
			return nil, false
		}
		parts = append(parts, part{text: s[at+2 : at+2+end], token: true})
		s = s[at+2+end+1:]
	}
	flush()
	return parts, true
}

// closingBrace is the index of the brace that closes an expression, -1 if none does.
func closingBrace(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '{':
			depth++
		case '}':
			if depth == 0 {
				return i
			}
			depth--
		case '/': // a comment runs to the end of its line
			if strings.HasPrefix(s[i:], "//") {
				end := strings.IndexByte(s[i:], '\n')
				if end < 0 {
					return -1
				}
				i += end
			}
		case '\'', '"':
			raw := i > 0 && (s[i-1] == 'r' || s[i-1] == 'R')
			end := stringLiteralLength(s[i:], raw)
			if end < 0 {
				return -1
			}
			i += end - 1
		}
	}
	return -1
}

// stringLiteralLength is the length of the CEL string literal at the start of s, its quotes
// included, -1 if it is not closed.
func stringLiteralLength(s string, raw bool) int {
	quote := s[:1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(s, triple) {
		quote = triple
	}
	for i := len(quote); i < len(s); i++ {
		switch {
		case s[i] == '\\' && !raw:
			i++
		case strings.HasPrefix(s[i:], quote):
			return i + len(quote)
		}
	}
	return -1
}
