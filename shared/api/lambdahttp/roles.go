package lambdahttp

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// roleNames are the roles that the claim of a verified token names, with commas between them. The
// gateway writes a list as "[a b]", in which nobody can tell where a name with a space ends: the
// group "platform admin" must not give the role admin. So the names are read from the token that the
// gateway has verified. Without it, a claim counts only if it can be but one name. A name that has a
// space or a comma is no role.
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

// namesInToken reads a claim that is a text or a list of texts from the one token in the header
// Authorization; ok is false if that is no token of the subject.
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
