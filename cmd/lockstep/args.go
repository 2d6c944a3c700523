package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// formatSelector is a selector as it was written on the command line.
func formatSelector(s workflow.Selector) string {
	var parts []string
	for _, p := range [][2]string{
		{"--type", s.Type}, {"--id", strings.Join(s.IDs, ",")}, {"--group", strings.Join(s.Groups, ",")}, {"--query", s.Query},
	} {
		if p[1] != "" {
			parts = append(parts, fmt.Sprintf("%s %q", p[0], p[1]))
		}
	}
	return strings.Join(parts, " ")
}

// parseParameters merges --parameters with the --set values, which win.
func parseParameters(object string, sets []string) (json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	if object != "" {
		if err := json.Unmarshal([]byte(object), &all); err != nil {
			var kind *json.UnmarshalTypeError
			if errors.As(err, &kind) {
				return nil, fmt.Errorf("--parameters wants a JSON object such as '{\"target\":\"2.0.0\"}', not a %s", kind.Value)
			}
			return nil, fmt.Errorf("--parameters wants a JSON object such as '{\"target\":\"2.0.0\"}', and %q is not JSON", object)
		}
		if all == nil {
			return nil, errors.New("--parameters wants a JSON object, not null")
		}
	}
	pairs, err := parsePairs(sets)
	if err != nil {
		return nil, err
	}
	for name, value := range pairs {
		raw := json.RawMessage(value)
		if !json.Valid(raw) || looksLikeNumber(value) {
			if raw, err = json.Marshal(value); err != nil {
				return nil, err
			}
		}
		all[name] = raw
	}
	if len(all) == 0 {
		return nil, nil
	}
	return json.Marshal(all)
}

// looksLikeNumber reports whether a value looks like a number but would not keep
// its spelling as one: 2.0 is a version more often than a number, and 007 is no
// JSON at all.
func looksLikeNumber(s string) bool {
	return strings.Contains(s, ".") && strings.Trim(s, "0123456789.-+eE") == ""
}

// parsePairs reads NAME=VALUE texts.
func parsePairs(texts []string) (map[string]string, error) {
	all := map[string]string{}
	for _, t := range texts {
		name, value, ok := strings.Cut(t, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%q is not NAME=VALUE", t)
		}
		all[name] = value
	}
	return all, nil
}
