package lambdahttp

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// roleNames returns the roles that the claim of a verified token names, separated by commas.
//
// The gateway writes a list as "[a b]", which does not show where a name with a space ends: the
// group "platform admin" must not give the role admin. So the names are read from the token that
// the gateway has verified. Without the token, a claim counts only if it can be nothing but a
// single name. A name with a space or a comma is not a role.
func roleNames(jwt *JWT, claim, authorization string) string {
	text, ok := jwt.Claims[claim]
	if !ok {
		return ""
	}
	names, ok := namesInToken(authorization, jwt.Claims["sub"], claim)
	if !ok {
		names = []string{strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")}
	}
	var roles []string
	for _, name := range names {
		if name != "" && !strings.ContainsFunc(name, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
			roles = append(roles, name)
		}
	}
	joined := strings.Join(roles, ",")
	if len(joined) > workflow.MaxRolesBytes {
		return ""
	}
	return joined
}

// namesInToken reads a claim that is a string or a list of strings from the only token in the
// Authorization header; ok is false if that is not a token of the subject.
func namesInToken(authorization, subject, claim string) (names []string, ok bool) {
	token := authorization
	if scheme, rest, found := strings.Cut(authorization, " "); found && strings.EqualFold(scheme, "Bearer") {
		token = strings.TrimSpace(rest)
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 || strings.Contains(token, ",") {
		return nil, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, false
	}
	var claims map[string]any
	if err := json.Unmarshal(raw, &claims); err != nil || claims["sub"] != any(subject) || subject == "" {
		return nil, false
	}
	switch v := claims[claim].(type) {
	case string:
		return []string{v}, true
	case []any:
		for _, one := range v {
			if name, isText := one.(string); isText {
				names = append(names, name)
			}
		}
		return names, true
	}
	return nil, false
}
