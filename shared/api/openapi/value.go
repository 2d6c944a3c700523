package openapi

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maxDepth is how deep a value may nest: deeper ones serve nobody, and make
// whoever walks them later pay for it.
const maxDepth = 100

// checkValue looks for what no schema forbids and nothing further in can work with:
// a number that does not fit a float64, whose exact value can be larger than
// any memory, and a value that nests too deep. Its path is relative to v. The
// first one found is returned, nil if there is none.
func checkValue(v any, depth int) *workflow.Issue {
	if depth > maxDepth {
		return &workflow.Issue{Code: "depth", Message: fmt.Sprintf("nests deeper than %d", maxDepth)}
	}
	switch v := v.(type) {
	case json.Number:
		if !fitsFloat64(string(v)) {
			return &workflow.Issue{Code: "number", Message: "the number is out of range"}
		}
	case []any:
		for i, e := range v {
			if bad := checkValue(e, depth+1); bad != nil {
				bad.Path = "[" + strconv.Itoa(i) + "]" + bad.Path
				return bad
			}
		}
	case map[string]any:
		for k, e := range v {
			if bad := checkValue(e, depth+1); bad != nil {
				bad.Path = "." + truncate(k) + bad.Path
				return bad
			}
		}
	}
	return nil
}

func fitsFloat64(s string) bool {
	if len(s) > 400 {
		return false
	}
	if e := strings.IndexAny(s, "eE"); e >= 0 {
		if n, err := strconv.Atoi(strings.TrimPrefix(s[e+1:], "+")); err != nil || n < -400 || n > 400 {
			return false
		}
	}
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// memberPath is the path of a member of an object.
func memberPath(at, name string) string {
	if at == "" {
		return truncate(name)
	}
	return at + "." + truncate(name)
}

// truncate keeps what a client sent from filling the answer.
func truncate(s string) string {
	if len(s) <= 200 {
		return s
	}
	return strings.ToValidUTF8(s[:200], "") + "..."
}

func isInteger(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	return digits != "" && strings.Trim(digits, "0123456789") == "" && (digits == "0" || digits[0] != '0')
}
