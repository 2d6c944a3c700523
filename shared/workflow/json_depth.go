package workflow

import "encoding/json"

// JSONDepth returns the depth to which the objects and lists of a JSON value are nested.
func JSONDepth(raw json.RawMessage) (deepest int) {
	depth, inText := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}
